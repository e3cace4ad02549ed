#ifndef PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_H_
#define PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "tensor/dtype.h"
#include "worker/stage_tensor.h"
#include "worker/transport/rendezvous.h"

namespace pipestage {

// A piece of a message: bytes in host or device memory.
struct ConstPart {
  const void* data = nullptr;
  size_t size = 0;
  DeviceKind device = DeviceKind::kHost;
};
struct MutablePart {
  void* data = nullptr;
  size_t size = 0;
  DeviceKind device = DeviceKind::kHost;
};

// A send or receive under way. Wait may be called once, from one thread. May be
// destroyed before it is done only after Abort of its communicator.
class Operation {
 public:
  virtual ~Operation() = default;

  // Blocks until the message has left (its bytes may be overwritten) or is
  // there. Errors: Unavailable if the peer is gone, DeadlineExceeded after the
  // communicator's timeout, or the status given to Abort. After any of them the
  // communicator is of no more use.
  virtual absl::Status Wait() = 0;
};

// An established group of ranks that exchange messages and reduce tensors.
//
// Messages between an ordered pair of ranks arrive in the order in which they
// were sent; the k-th receive takes the k-th send. There are no tags. Sender
// and receiver must give the same sizes, part by part; what happens otherwise
// is undefined, which is why plans are verified and messages carry headers.
//
// Nothing is sent, received or connected before Create returns on every rank;
// afterwards no operation sets anything up.
//
// Send, Receive and collectives: one thread at a time. Abort: any thread, any
// time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  // "inproc", "gloo", "nccl" or "tcp".
  virtual absl::string_view backend() const = 0;

  // Starts sending the parts as one message and returns. `keepalive` keeps
  // their bytes alive and unchanged; it is released when the operation is done.
  // Wait returns only when the receiver has posted its receive, or earlier: do
  // not rely on either.
  virtual absl::StatusOr<std::unique_ptr<Operation>> Send(
      Rank to, absl::Span<const ConstPart> parts,
      std::shared_ptr<const void> keepalive) = 0;

  // Starts receiving the next message of `from` into the parts and returns.
  virtual absl::StatusOr<std::unique_ptr<Operation>> Receive(
      Rank from, absl::Span<const MutablePart> parts,
      std::shared_ptr<const void> keepalive) = 0;

  // Collectives, in place where they can be; every rank calls them in the same
  // order with the same sizes. They block. dtype: floating point or integer.
  // Sums `data` (count elements) over all ranks, everywhere.
  virtual absl::Status AllReduceSum(MutablePart data, DType dtype) = 0;
  // out = the ranks' `in`, by rank: size() * in.size bytes.
  virtual absl::Status AllGather(ConstPart in, MutablePart out) = 0;
  // out = this rank's share of the sum of `in`: in.size == size() * out.size.
  virtual absl::Status ReduceScatterSum(ConstPart in, MutablePart out,
                                        DType dtype) = 0;

  // Ends the communicator: operations under way and to come return `reason`,
  // when nothing touches the bytes of any of them any more; so may operations
  // then be destroyed. Does not wait for the peers. Idempotent; the first
  // reason counts.
  virtual void Abort(absl::Status reason) = 0;
};

struct CommunicatorOptions {
  Rank rank;
  int size = 1;
  Generation generation;
  // An operation not done after this long ends the communicator.
  absl::Duration timeout = absl::Minutes(2);
  // Keys are used beneath this prefix: random and fresh for every generation.
  std::string prefix;
  Rendezvous* rendezvous = nullptr;  // not owned; used during Create only
  // Where this rank's peers reach it: a name or address of this machine, or, if
  // not empty, the first address of a network interface. Never all addresses:
  // what listens here trusts whoever connects.
  std::string host = "127.0.0.1";
  std::string network_interface;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_H_
