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

// Tensors of a safetensors file by name. They share `file`'s bytes: map the file
// into memory and nothing is read until it is used.
//
// Strict: the header is at most 16 MiB and JSON of depth <= 4 without duplicate
// keys; offsets are in range, contiguous from 0 and cover the file exactly; each
// entry's bytes equal its shape's. InvalidArgument names the entry and both values.
absl::StatusOr<std::map<std::string, HostTensor>> ParseSafetensors(
    const Buffer& file);

// The bytes of a safetensors file with these tensors, in the map's order.
std::string SerializeSafetensors(
    const std::map<std::string, HostTensor>& tensors);

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_SAFETENSORS_H_
