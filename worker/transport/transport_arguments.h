#ifndef PIPESTAGE_WORKER_TRANSPORT_TRANSPORT_ARGUMENTS_H_
#define PIPESTAGE_WORKER_TRANSPORT_TRANSPORT_ARGUMENTS_H_

// What every backend asks of its arguments before it touches a peer.

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// InvalidArgument unless the options can form a group: a rank within the size,
// a positive timeout, a prefix and a rendezvous.
absl::Status CheckCommunicatorOptions(const CommunicatorOptions& options);

// InvalidArgument unless `peer` is another rank of the group.
absl::Status CheckPeer(Rank self, Rank peer, int size);

// InvalidArgument if a part is in device memory, which only NCCL carries.
absl::Status CheckHostParts(absl::string_view backend,
                            absl::Span<const ConstPart> parts);
absl::Status CheckHostParts(absl::string_view backend,
                            absl::Span<const MutablePart> parts);

size_t TotalBytes(absl::Span<const ConstPart> parts);
size_t TotalBytes(absl::Span<const MutablePart> parts);

// Sizes of collectives. InvalidArgument naming both sizes where they do not
// fit.
absl::Status CheckWholeElements(size_t bytes, DType dtype);
absl::Status CheckAllGatherSizes(size_t in, size_t out, int size);
absl::Status CheckReduceScatterSizes(size_t in, size_t out, int size);

// Unavailable, naming the peer.
absl::Status PeerLostError(Rank peer, absl::string_view why);

// DeadlineExceeded, naming the peer and what was waited for.
absl::Status PeerTimeoutError(Rank peer, absl::string_view what,
                              absl::Duration timeout);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_TRANSPORT_ARGUMENTS_H_
