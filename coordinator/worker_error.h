#ifndef PIPESTAGE_COORDINATOR_WORKER_ERROR_H_
#define PIPESTAGE_COORDINATOR_WORKER_ERROR_H_

#include "absl/status/status.h"
#include "coordinator/pipeline.h"

namespace pipestage {

// What a worker said went wrong, with who said it in front of the message and
// in the ErrorInfo's metadata. Code, reason and everything else stay.
absl::Status AttributeToWorker(const Attachment& from,
                               const absl::Status& error);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_WORKER_ERROR_H_
