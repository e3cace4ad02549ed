#ifndef PIPESTAGE_COORDINATOR_FEEDS_H_
#define PIPESTAGE_COORDINATOR_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/call_inputs.h"
#include "coordinator/worker_connection.h"
#include "package/contract.h"
#include "schedule/plan.h"
#include "tensor/host_tensor.h"
#include "tensor/microbatches.h"

namespace pipestage {

// About how many bytes a FeedData holds, if a microbatch is no larger.
inline constexpr size_t kFeedMessageBytes = 256 << 10;

// One FeedData to be: which bytes of a call's argument go to a rank at once.
struct Feed {
  int argument = 0;  // index into the model's inputs, then its targets
  int32_t first_microbatch = 0;
  int32_t num_microbatches = 0;  // 0 = replicated: all of it
  size_t size_bytes = 0;
  const HostTensor* tensor = nullptr;  // of the call's inputs
  int axis = 0;
};

// What each rank is to be fed, in the order in which its part of the plan uses
// it first: the first microbatch can start while the last is on its way, and
// nothing lies long at a worker. Positional inputs go to the owner of stage 0,
// keyword inputs to every owner of a stage that declares them, once; targets to
// the owner of the last stage.
//
// `inputs` has been bound to `contract`, and outlives the result.
std::vector<std::vector<Feed>> PlanFeeds(const PackageContract& contract,
                                         const Plan& plan,
                                         const Microbatches& microbatches,
                                         const CallInputs& inputs);

// The message itself, but for its call id. Bytes are shared where a part is
// contiguous in the argument, that is along axis 0, and copied elsewhere.
absl::StatusOr<FeedMessage> MakeFeedMessage(const Feed& feed,
                                            const Microbatches& microbatches);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_FEEDS_H_
