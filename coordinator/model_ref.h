#ifndef PIPESTAGE_COORDINATOR_MODEL_REF_H_
#define PIPESTAGE_COORDINATOR_MODEL_REF_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

// "NAME" or "NAME@VERSION". InvalidArgument if either is empty where it is
// written.
absl::StatusOr<v1::ModelRef> ParseModelRef(absl::string_view text);

// The inverse: "byte-lm@1", or "byte-lm" when the version is unset.
std::string ToString(const v1::ModelRef& ref);

// InvalidArgument (INVALID_INPUT) for a name or version that none can have,
// such as one that leaves the repository. An unset version is fine.
absl::Status CheckModelRef(const v1::ModelRef& ref);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_MODEL_REF_H_
