#include "worker/torch/exported_archive.h"

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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

// The records of an archive that lies in memory, each read once. torch.export
// stores records as they are: an archive that declares more bytes than it has
// is refused before memory of that size is taken.
class Records {
 public:
  struct Record {
    at::DataPtr data;
    size_t size = 0;
  };

  explicit Records(absl::string_view bytes)
      : reader_(std::make_shared<MemoryReader>(bytes)),
        archive_size_(bytes.size()) {}

  bool Has(const std::string& name) { return reader_.hasRecord(name); }

  absl::StatusOr<std::shared_ptr<const Record>> Read(const std::string& name) {
    if (auto it = records_.find(name); it != records_.end()) return it->second;
    if (!Has(name)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the archive has no record ", name));
    }
    const size_t size = reader_.getRecordSize(name);
    if (size > archive_size_ - bytes_read_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "record ", name, " declares ", size, " bytes; with the ", bytes_read_,
          " bytes of others, that is more than the archive's ", archive_size_));
    }
    bytes_read_ += size;
    auto record = std::make_shared<Record>();
    std::tie(record->data, record->size) = reader_.getRecord(name);
    records_[name] = record;
    return record;
  }

  absl::StatusOr<std::string> ReadText(const std::string& name) {
    PIPESTAGE_ASSIGN_OR_RETURN(const auto record, Read(name));
    return std::string(static_cast<const char*>(record->data.get()),
                       record->size);
  }

 private:
  PyTorchStreamReader reader_;
  const size_t archive_size_;
  size_t bytes_read_ = 0;
  std::map<std::string, std::shared_ptr<const Record>> records_;
};

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

// Bytes from the start of the storage to the end of the last element of a
// strided view, 0 if it has none.
absl::StatusOr<int64_t> BytesReached(absl::Span<const int64_t> sizes,
                                     absl::Span<const int64_t> strides,
                                     int64_t offset, int64_t element_size) {
  if (sizes.size() != strides.size() || offset < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has ", sizes.size(), " sizes, ", strides.size(),
                     " strides and offset ", offset));
  }
  if (absl::c_linear_search(sizes, 0)) return 0;
  int64_t end = 0;  // in elements
  int64_t bytes = 0;
  int64_t count = 1;
  bool overflow = __builtin_add_overflow(offset, int64_t{1}, &end);
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t step = 0;
    overflow |= __builtin_mul_overflow(count, sizes[i], &count) ||
                __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
                __builtin_add_overflow(end, step, &end);
  }
  overflow |= __builtin_mul_overflow(count, element_size, &count) ||
              __builtin_mul_overflow(end, element_size, &bytes);
  if (overflow) {
    return absl::FailedPreconditionError("its layout overflows 64 bits");
  }
  return bytes;
}

// A view of the record, with the strides it had in Python, by which kernels
// choose. Constants of one record share its bytes, as they did there.
absl::StatusOr<at::Tensor> ReadConstant(Records& records,
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
  const int64_t element = ElementSize(*dtype);
  PIPESTAGE_ASSIGN_OR_RETURN(
      const int64_t reached,
      BytesReached(sizes, strides, constant.storage_offset, element));
  const std::string name = absl::StrCat("data/constants/", constant.record);
  PIPESTAGE_ASSIGN_OR_RETURN(const auto record, records.Read(name));
  if (static_cast<size_t>(reached) > record->size) {
    return absl::FailedPreconditionError(
        absl::StrCat("record ", name, " has ", record->size,
                     " bytes, but the tensor reaches to ", reached));
  }
  const auto options = at::TensorOptions().dtype(ToScalarType(*dtype));
  if (reached == 0) return at::empty(sizes, options);
  char* const first = static_cast<char*>(record->data.get()) +
                      constant.storage_offset * element;
  return at::from_blob(
      first, sizes, strides, [record](void*) {}, options);
}

absl::Status ReadConstants(Records& records, ExportedArchive& archive) {
  if (!records.Has(kConstantsConfig)) return absl::OkStatus();
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string config,
                             records.ReadText(kConstantsConfig));
  PIPESTAGE_ASSIGN_OR_RETURN(const auto constants,
                             ParseExportedConstants(config));
  for (const auto& [name, constant] : constants) {
    auto tensor = ReadConstant(records, constant);
    if (!tensor.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("constant ", name, ": ", tensor.status().message()));
    }
    archive.constants[name] = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportedArchive> Read(absl::string_view bytes) {
  Records records(bytes);
  if (records.Has("byteorder")) {
    PIPESTAGE_ASSIGN_OR_RETURN(const std::string order,
                               records.ReadText("byteorder"));
    if (order != "little") {
      return absl::FailedPreconditionError(
          absl::StrCat("byteorder is ", order, ", not little"));
    }
  }
  ExportedArchive archive;
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string json, records.ReadText(kModel));
  PIPESTAGE_ASSIGN_OR_RETURN(archive.module, ParseExportedModule(json));
  PIPESTAGE_RETURN_IF_ERROR(ReadConstants(records, archive));
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
