#ifndef PIPESTAGE_CLIENT_TESTING_FAKE_COORDINATOR_H_
#define PIPESTAGE_CLIENT_TESTING_FAKE_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "grpcpp/server.h"

namespace pipestage {

// A coordinator without workers, over real gRPC on loopback. Its models take
// one input "x" whose axis 0 is rows, and answer with "y", which is x:
//
//   echo    the loss of a row is 0.5, its weight 1
//   nolabel no row has a weight
//   nan     the second microbatch's loss is NaN
//   noloss  no loss
//   stall   answers when the call is over
//   hasty   ends with Aborted, reason STAGE_FAILED, before it has read its
//   input chatty  answers in full before it has read its input
//
// Any other is NotFound. Thread-safe.
class FakeCoordinator {
 public:
  FakeCoordinator();
  ~FakeCoordinator();

  const std::string& address() const { return address_; }
  int unary_calls() const;
  int streamed_calls() const;
  // Bytes of the largest chunk a client sent.
  int64_t largest_chunk() const;
  // Models now loaded, of "echo@1" and "echo@2".
  int loaded_models() const;

 private:
  struct Services;
  const std::unique_ptr<Services> services_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_TESTING_FAKE_COORDINATOR_H_
