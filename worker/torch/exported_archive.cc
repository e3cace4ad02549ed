#include "worker/torch/exported_archive.h"

#include <memory>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "caffe2/serialize/inline_container.h"
#include "tensor/host_tensor.h"
#include "worker/torch/memory_reader.h"
#include "worker/torch/torch_errors.h"
#include "worker/torch/torch_tensor.h"

namespace pipestage {
namespace {

using caffe2::serialize::PyTorchStreamReader;

constexpr char kModel[] = "models/model.json";
constexpr char kConstantsConfig[] =
    "data/constants/model_constants_config.json";

absl::StatusOr<std::string> ReadText(PyTorchStreamReader& reader,
                                     const std::string& name) {
  if (!reader.hasRecord(name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the archive has no record ", name));
  }
  const auto [data, size] = reader.getRecord(name);
  return std::string(static_cast<const char*>(data.get()), size);
}

// Every size or stride as a number.
absl::StatusOr<std::vector<int64_t>> Numbers(
    const std::vector<ExportedSize>& sizes) {
  std::vector<int64_t> numbers;
  for (const ExportedSize& size : sizes) {
    if (!size.value || *size.value < 0) {
      return absl::FailedPreconditionError("a size or stride is no number");
    }
    numbers.push_back(*size.value);
  }
  return numbers;
}

// Bytes from the start of the storage to the end of the last element that a
// strided view reaches; -1 if that overflows.
int64_t BytesReached(const std::vector<int64_t>& sizes,
                     const std::vector<int64_t>& strides, int64_t offset,
                     int64_t element) {
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    int64_t step;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return -1;
    }
  }
  int64_t bytes;
  if (__builtin_mul_overflow(last + 1, element, &bytes)) return -1;
  return bytes;
}

absl::StatusOr<at::Tensor> ReadConstant(PyTorchStreamReader& reader,
                                        const ExportedConstant& constant) {
  if (constant.pickled) {
    return absl::FailedPreconditionError("it is pickled; pickles are not read");
  }
  const std::optional<DType> dtype =
      DTypeOfScalarTypeCode(constant.tensor.scalar_type);
  if (!dtype) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its dtype code ", constant.tensor.scalar_type, " is not supported"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const auto sizes, Numbers(constant.tensor.sizes));
  PIPESTAGE_ASSIGN_OR_RETURN(const auto strides,
                             Numbers(constant.tensor.strides));
  const std::string record = absl::StrCat("data/constants/", constant.record);
  if (!reader.hasRecord(record)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the archive has no record ", record));
  }
  const auto [data, bytes] = reader.getRecord(record);
  const int64_t reached = BytesReached(sizes, strides, constant.storage_offset,
                                       ElementSize(*dtype));
  if (sizes.size() != strides.size() || constant.storage_offset < 0 ||
      reached < 0 || static_cast<size_t>(reached) > bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("record ", record, " has ", bytes,
                     " bytes, but the tensor reaches to ", reached));
  }
  const auto options = at::TensorOptions().dtype(ToScalarType(*dtype));
  if (reached == 0) return at::empty(sizes, options);
  char* const first = static_cast<char*>(data.get()) +
                      constant.storage_offset * ElementSize(*dtype);
  // A clone has the strides it had in Python, by which kernels choose.
  return at::from_blob(first, sizes, strides, options).clone();
}

absl::Status ReadConstants(PyTorchStreamReader& reader,
                           ExportedArchive& archive) {
  if (!reader.hasRecord(kConstantsConfig)) return absl::OkStatus();
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string config,
                             ReadText(reader, kConstantsConfig));
  PIPESTAGE_ASSIGN_OR_RETURN(const auto constants,
                             ParseExportedConstants(config));
  for (const auto& [name, constant] : constants) {
    auto tensor = ReadConstant(reader, constant);
    if (!tensor.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("constant ", name, ": ", tensor.status().message()));
    }
    archive.constants[name] = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportedArchive> Read(absl::string_view bytes) {
  PyTorchStreamReader reader(std::make_shared<MemoryReader>(bytes));
  if (reader.hasRecord("byteorder")) {
    PIPESTAGE_ASSIGN_OR_RETURN(const std::string order,
                               ReadText(reader, "byteorder"));
    if (order != "little") {
      return absl::FailedPreconditionError(
          absl::StrCat("byteorder is ", order, ", not little"));
    }
  }
  ExportedArchive archive;
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string json, ReadText(reader, kModel));
  PIPESTAGE_ASSIGN_OR_RETURN(archive.module, ParseExportedModule(json));
  PIPESTAGE_RETURN_IF_ERROR(ReadConstants(reader, archive));
  return archive;
}

}  // namespace

absl::StatusOr<ExportedArchive> ReadExportedArchive(absl::string_view bytes) {
  absl::StatusOr<ExportedArchive> archive =
      CallTorch("not a .pt2 archive", [&] { return Read(bytes); });
  if (archive.ok()) return archive;
  if (archive.status().code() == absl::StatusCode::kResourceExhausted) {
    return archive;
  }
  return absl::FailedPreconditionError(archive.status().message());
}

}  // namespace pipestage
