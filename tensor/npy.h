#ifndef PIPESTAGE_TENSOR_NPY_H_
#define PIPESTAGE_TENSOR_NPY_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// The array of a NumPy .npy file (versions 1 to 3, little endian, C order). It
// shares `file`'s bytes if they are aligned for the dtype, as NumPy writes
// them. InvalidArgument for Fortran order, big endian, object or unsupported
// dtypes and for sizes that disagree; the message says which.
absl::StatusOr<HostTensor> ParseNpy(const Buffer& file);

// The bytes of a .npy file. bfloat16, which NumPy lacks, is InvalidArgument.
absl::StatusOr<std::string> SerializeNpy(const HostTensor& tensor);

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_NPY_H_
