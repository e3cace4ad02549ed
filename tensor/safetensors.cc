#include "tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace pipestage {
namespace {

using nlohmann::json;

// The format is little endian, and so is every machine this runs on.
static_assert(std::endian::native == std::endian::little);

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeaderBytes = size_t{16} << 20;
constexpr int kMaxJsonDepth = 4;
constexpr absl::string_view kMetadata = "__metadata__";

struct DTypeTag {
  DType dtype;
  absl::string_view tag;
};
constexpr std::array<DTypeTag, 10> kTags = {{
    {DType::kBool, "BOOL"},
    {DType::kUint8, "U8"},
    {DType::kInt8, "I8"},
    {DType::kInt16, "I16"},
    {DType::kInt32, "I32"},
    {DType::kInt64, "I64"},
    {DType::kFloat16, "F16"},
    {DType::kBFloat16, "BF16"},
    {DType::kFloat32, "F32"},
    {DType::kFloat64, "F64"},
}};

std::optional<DType> DTypeFromTag(absl::string_view tag) {
  for (const DTypeTag& row : kTags) {
    if (row.tag == tag) return row.dtype;
  }
  return std::nullopt;
}

std::string TagOf(DType dtype) {
  for (const DTypeTag& row : kTags) {
    if (row.dtype == dtype) return std::string(row.tag);
  }
  return "";
}

absl::Status Error(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors: ", problem));
}

absl::Status EntryError(absl::string_view name, absl::string_view problem) {
  return Error(absl::StrCat("\"", name, "\" ", problem));
}

struct Header {
  json entries;
  size_t data_start = 0;
};

absl::StatusOr<Header> ReadHeader(const Buffer& file) {
  if (file.size() < kLengthBytes) {
    return Error(absl::StrCat("the file has ", file.size(),
                              " bytes; its header's length alone takes ",
                              kLengthBytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > file.size() - kLengthBytes) {
    return Error(absl::StrCat("the header has ", length, " bytes; there are ",
                              file.size() - kLengthBytes, ", and at most ",
                              kMaxHeaderBytes, " are read"));
  }
  const absl::string_view text(
      reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  absl::StatusOr<json> entries = ParseStrictJson(text, kMaxJsonDepth);
  if (!entries.ok()) {
    return Error(absl::StrCat("header: ", entries.status().message()));
  }
  if (!entries->is_object()) return Error("the header is not an object");
  return Header{*std::move(entries), kLengthBytes + length};
}

// A list of integers that are not negative, or nullopt.
std::optional<Shape> ReadSizes(const json& list) {
  if (!list.is_array()) return std::nullopt;
  Shape sizes;
  for (const json& size : list) {
    if (!size.is_number_unsigned()) return std::nullopt;
    const uint64_t value = size.get<uint64_t>();
    if (value > uint64_t{INT64_MAX}) return std::nullopt;
    sizes.push_back(static_cast<int64_t>(value));
  }
  return sizes;
}

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

absl::StatusOr<Entry> ReadEntry(const std::string& name, const json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return EntryError(
        name, "is not an object of dtype, shape and data_offsets alone");
  }
  const json& tag = value.at("dtype");
  if (!tag.is_string()) return EntryError(name, "has a dtype that is no text");
  const std::optional<DType> dtype =
      DTypeFromTag(tag.get_ref<const std::string&>());
  if (!dtype) {
    return EntryError(name, absl::StrCat("has dtype ", tag.dump(),
                                         ", which is not supported"));
  }
  const std::optional<Shape> shape = ReadSizes(value.at("shape"));
  if (!shape) {
    return EntryError(name, "has a shape that is no list of sizes");
  }
  const std::optional<Shape> offsets = ReadSizes(value.at("data_offsets"));
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return EntryError(name, "has data_offsets that are not [begin, end]");
  }
  return Entry{name, *dtype, *shape, (*offsets)[0], (*offsets)[1]};
}

absl::Status CheckBytes(const Entry& entry) {
  const absl::StatusOr<int64_t> bytes = NumBytes(entry.dtype, entry.shape);
  if (!bytes.ok()) {
    return EntryError(entry.name,
                      absl::StrCat("is broken: ", bytes.status().message()));
  }
  if (*bytes == entry.end - entry.begin) return absl::OkStatus();
  return EntryError(
      entry.name,
      absl::StrCat("has ", entry.end - entry.begin, " bytes; ",
                   Describe(entry.dtype, entry.shape), " takes ", *bytes));
}

// That the entries, in the order of their offsets, cover `size` bytes exactly.
absl::Status CheckCoverage(std::vector<Entry> entries, int64_t size) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  int64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      return EntryError(entry.name,
                        absl::StrCat("begins at byte ", entry.begin,
                                     "; what is before it ends at ", covered));
    }
    if (entry.end > size) {
      return EntryError(entry.name, absl::StrCat("ends at byte ", entry.end,
                                                 "; the data ends at ", size));
    }
    covered = entry.end;
  }
  if (covered == size) return absl::OkStatus();
  return Error(absl::StrCat("the entries end at byte ", covered,
                            "; the data ends at ", size));
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const Header& header) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.entries.items()) {
    if (name == kMetadata) continue;
    PIPESTAGE_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, value));
    PIPESTAGE_RETURN_IF_ERROR(CheckBytes(entry));
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(
    const Header& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.entries.find(std::string(kMetadata));
  if (found == header.entries.end()) return metadata;
  if (!found->is_object()) return EntryError(kMetadata, "is not an object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) {
      return EntryError(kMetadata, absl::StrCat("has something under \"", key,
                                                "\" that is no text"));
    }
    metadata[key] = value.get_ref<const std::string&>();
  }
  return metadata;
}

using Named = std::pair<const std::string, HostTensor>;

// The tensors in the order of their bytes.
std::vector<const Named*> InFileOrder(
    const std::map<std::string, HostTensor>& tensors) {
  std::vector<const Named*> order;
  for (const Named& named : tensors) order.push_back(&named);
  std::stable_sort(
      order.begin(), order.end(), [](const Named* a, const Named* b) {
        return ElementSize(a->second.dtype) > ElementSize(b->second.dtype);
      });
  return order;
}

}  // namespace

absl::StatusOr<std::map<std::string, HostTensor>> ParseSafetensors(
    const Buffer& file) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Header header, ReadHeader(file));
  PIPESTAGE_RETURN_IF_ERROR(ReadMetadata(header).status());
  PIPESTAGE_ASSIGN_OR_RETURN(const std::vector<Entry> entries,
                             ReadEntries(header));
  PIPESTAGE_RETURN_IF_ERROR(CheckCoverage(
      entries, static_cast<int64_t>(file.size() - header.data_start)));
  std::map<std::string, HostTensor> tensors;
  for (const Entry& entry : entries) {
    tensors[entry.name] = {
        entry.dtype, entry.shape,
        file.AlignedSlice(header.data_start + entry.begin,
                          entry.end - entry.begin, ElementSize(entry.dtype))};
  }
  return tensors;
}

absl::StatusOr<std::map<std::string, std::string>> ParseSafetensorsMetadata(
    const Buffer& file) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Header header, ReadHeader(file));
  return ReadMetadata(header);
}

std::string SerializeSafetensors(
    const std::map<std::string, HostTensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  const std::vector<const Named*> order = InFileOrder(tensors);
  json header = json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  size_t size = 0;
  for (const Named* named : order) {
    const auto& [name, tensor] = *named;
    json& entry = header[name];
    entry["dtype"] = TagOf(tensor.dtype);
    entry["shape"] =
        std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end());
    entry["data_offsets"] = {size, size + tensor.data.size()};
    size += tensor.data.size();
  }
  std::string text = header.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                                 json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), kLengthBytes);
  file.reserve(kLengthBytes + text.size() + size);
  file += text;
  for (const Named* named : order) {
    const Buffer& data = named->second.data;
    file.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return file;
}

}  // namespace pipestage
