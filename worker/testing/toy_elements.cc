#include <cstring>

#include "base/log.h"
#include "worker/testing/toy_stage.h"

namespace pipestage {
namespace {

template <typename T>
void Read(const Buffer& bytes, std::vector<double>& elements) {
  elements.resize(bytes.size() / sizeof(T));
  for (size_t i = 0; i < elements.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    elements[i] = static_cast<double>(element);
  }
}

template <typename T>
Buffer Write(absl::Span<const double> elements) {
  Buffer bytes = Buffer::Allocate(elements.size() * sizeof(T));
  for (size_t i = 0; i < elements.size(); ++i) {
    const T element = static_cast<T>(elements[i]);
    std::memcpy(bytes.mutable_data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

}  // namespace

std::vector<double> ToyElements(const StageTensor& tensor) {
  std::vector<double> elements;
  switch (tensor.dtype) {
    case DType::kBool:
    case DType::kUint8:
      Read<uint8_t>(tensor.data, elements);
      break;
    case DType::kInt32:
      Read<int32_t>(tensor.data, elements);
      break;
    case DType::kInt64:
      Read<int64_t>(tensor.data, elements);
      break;
    case DType::kFloat32:
      Read<float>(tensor.data, elements);
      break;
    case DType::kFloat64:
      Read<double>(tensor.data, elements);
      break;
    default:
      PIPESTAGE_CHECK(false);  // a test asked for what toys do not do
  }
  return elements;
}

StageTensor MakeToyTensor(DType dtype, Shape shape,
                          absl::Span<const double> elements) {
  StageTensor tensor = {dtype, std::move(shape), Buffer(), DeviceKind::kHost};
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      tensor.data = Write<uint8_t>(elements);
      break;
    case DType::kInt32:
      tensor.data = Write<int32_t>(elements);
      break;
    case DType::kInt64:
      tensor.data = Write<int64_t>(elements);
      break;
    case DType::kFloat32:
      tensor.data = Write<float>(elements);
      break;
    case DType::kFloat64:
      tensor.data = Write<double>(elements);
      break;
    default:
      PIPESTAGE_CHECK(false);
  }
  return tensor;
}

}  // namespace pipestage
