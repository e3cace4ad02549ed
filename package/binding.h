#ifndef PIPESTAGE_PACKAGE_BINDING_H_
#define PIPESTAGE_PACKAGE_BINDING_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "package/contract.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// The sizes of one call, found from the tensors it was given.
struct Binding {
  int64_t rows = 0;  // B
  Sizes sizes;       // the named sizes other than rows
};

// Checks a call's inputs and targets against the contract and finds its sizes.
// Every input must be there, and every target if `need_targets`; nothing else
// may be. A name fixed by one tensor must agree with all others.
//
// Errors are InvalidArgument with reason INVALID_INPUT or SHAPE_MISMATCH; the
// message names the tensor, what the contract says and what came: missing,
// surplus or misnamed (with the names that exist), dtype, number of axes, an
// axis' size, rows that disagree, B = 0, a size outside its range.
absl::StatusOr<Binding> BindCall(
    const PackageContract& contract,
    const std::map<std::string, HostTensor>& inputs,
    const std::map<std::string, HostTensor>& targets, bool need_targets);

// That microbatches of `smallest` to `largest` rows are within the contract's
// range of "rows", which is about what the programs take at once.
// InvalidArgument, SHAPE_MISMATCH.
absl::Status CheckMicrobatchRows(const PackageContract& contract,
                                 int64_t smallest, int64_t largest);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_BINDING_H_
