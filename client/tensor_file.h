#ifndef PIPESTAGE_CLIENT_TENSOR_FILE_H_
#define PIPESTAGE_CLIENT_TENSOR_FILE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// Reads a tensor from "FILE.npy", "FILE.safetensors" or
// "FILE.safetensors:TENSOR". Without ":TENSOR" the file holds exactly one
// tensor, or one named `name`. The tensor's bytes are the file's, mapped into
// memory.
//
// Errors: NotFound, or InvalidArgument naming the file and what is wrong with
// it.
absl::StatusOr<HostTensor> ReadTensorFile(absl::string_view file,
                                          absl::string_view name);

// Writes one tensor as .npy, or several as .safetensors: beneath another name
// first, so that a file is whole or not there.
//
// Errors: InvalidArgument if the path's ending is another, or if the format
// lacks the dtype; those of the file system.
absl::Status WriteNpyFile(const std::string& path, const HostTensor& tensor);
absl::Status WriteSafetensorsFile(
    const std::string& path, const std::map<std::string, HostTensor>& tensors);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_TENSOR_FILE_H_
