#ifndef PIPESTAGE_TENSOR_SAFETENSORS_H_
#define PIPESTAGE_TENSOR_SAFETENSORS_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// Tensors of a safetensors file by name. They share `file`'s bytes: map the
// file into memory and nothing is read until it is used.
//
// An entry that does not lie aligned for its dtype is copied instead.
//
// Strict: the header is at most 16 MiB and JSON of depth <= 4 without duplicate
// keys; offsets are in range, contiguous from 0 and cover the file exactly;
// each entry's bytes equal its shape's. InvalidArgument names the entry and
// both values.
absl::StatusOr<std::map<std::string, HostTensor>> ParseSafetensors(
    const Buffer& file);

// The texts under "__metadata__"; empty if there is none. As strict about the
// header's JSON, but does not look at the tensors.
absl::StatusOr<std::map<std::string, std::string>> ParseSafetensorsMetadata(
    const Buffer& file);

// The bytes of a safetensors file with these tensors, none of which may be
// named
// "__metadata__". The entries are in the map's order; their bytes by falling
// element size, so that each is aligned, as other readers want it.
std::string SerializeSafetensors(
    const std::map<std::string, HostTensor>& tensors,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_SAFETENSORS_H_
