#ifndef PIPESTAGE_COORDINATOR_CALL_INPUTS_H_
#define PIPESTAGE_COORDINATOR_CALL_INPUTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/pipeline_service.pb.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// What a client sent with a call: well-formed tensors, not yet held against a
// model. Copies share the bytes.
struct CallInputs {
  std::map<std::string, HostTensor> inputs;
  std::map<std::string, HostTensor> targets;

  int64_t size_bytes() const;
};

// The tensors of a unary request, over the request's own bytes. `owner` keeps
// `request` alive.
//
// Errors: InvalidArgument (MALFORMED_TENSOR) naming the tensor.
absl::StatusOr<CallInputs> BorrowInputs(const v1::EvalRequest& request,
                                        std::shared_ptr<const void> owner);

// Puts the tensors of a stream together as their chunks arrive. What the header
// announces is checked before memory for it is taken, and memory is taken for a
// tensor when its first byte is there.
//
// Thread-compatible.
class StreamedInputs {
 public:
  struct Limits {
    int max_tensors = 4096;
    int64_t max_bytes = int64_t{2} << 30;  // of all tensors together
  };

  // Errors:
  //   InvalidArgument: a spec is malformed, a role is none that a client sends,
  //     a name is empty, too long or announced twice, too many tensors.
  //   ResourceExhausted (MESSAGE_TOO_LARGE): more bytes than the limit.
  static absl::StatusOr<StreamedInputs> Begin(const v1::EvalHeader& header,
                                              Limits limits);

  // InvalidArgument: no such tensor, an empty chunk, or more bytes than
  // announced.
  absl::Status Add(const v1::TensorChunk& chunk);

  bool complete() const { return missing_bytes_ == 0; }
  // What has been announced, in bytes.
  int64_t size_bytes() const { return size_bytes_; }
  // InvalidArgument naming the tensors that are not complete.
  absl::Status CheckComplete() const;

  // All tensors; call once, when complete.
  CallInputs Take();

 private:
  struct Arriving {
    v1::TensorRole role;
    std::string name;
    HostTensor tensor;
    int64_t size = 0;
    int64_t received = 0;
  };

  absl::Status Announce(const v1::TensorAnnouncement& announcement,
                        const Limits& limits);

  std::vector<Arriving> tensors_;
  int64_t size_bytes_ = 0;
  int64_t missing_bytes_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_CALL_INPUTS_H_
