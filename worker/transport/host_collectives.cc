#include "worker/transport/host_collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "worker/transport/reduce_sum.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

// A run of bytes within a larger piece of memory.
struct Range {
  size_t begin = 0;
  size_t size = 0;
};

// Share of rank `rank` when `count` elements are dealt to `size` ranks as
// evenly as can be, larger shares first.
Range ShareOf(int rank, int size, size_t count, size_t element_size) {
  const size_t base = count / size, extra = count % size;
  const size_t r = rank;
  const size_t begin = r * base + std::min(r, extra);
  return {begin * element_size, (base + (r < extra ? 1 : 0)) * element_size};
}

ConstPart PartOf(const void* data, Range range) {
  return {static_cast<const std::byte*>(data) + range.begin, range.size};
}
MutablePart PartOf(void* data, Range range) {
  return {static_cast<std::byte*>(data) + range.begin, range.size};
}

using Operations = std::vector<std::unique_ptr<Operation>>;

// Starts a receive from and a send to every other rank, and waits for all of
// them.
absl::Status StartAndWait(CollectiveLane& lane,
                          absl::FunctionRef<ConstPart(int)> to_send,
                          absl::FunctionRef<MutablePart(int)> to_receive,
                          Operations& operations) {
  for (int peer = 0; peer < lane.lane_size(); ++peer) {
    if (Rank(peer) == lane.lane_rank()) continue;
    PIPESTAGE_ASSIGN_OR_RETURN(auto receive,
                               lane.LaneReceive(Rank(peer), to_receive(peer)));
    operations.push_back(std::move(receive));
  }
  for (int peer = 0; peer < lane.lane_size(); ++peer) {
    if (Rank(peer) == lane.lane_rank()) continue;
    PIPESTAGE_ASSIGN_OR_RETURN(auto send,
                               lane.LaneSend(Rank(peer), to_send(peer)));
    operations.push_back(std::move(send));
  }
  for (auto& operation : operations) {
    PIPESTAGE_RETURN_IF_ERROR(operation->Wait());
  }
  return absl::OkStatus();
}

// Exchanges one message with every other rank. A failure ends the communicator:
// the peers are out of step with us, and only then may operations be dropped.
absl::Status Exchange(CollectiveLane& lane,
                      absl::FunctionRef<ConstPart(int)> to_send,
                      absl::FunctionRef<MutablePart(int)> to_receive) {
  Operations operations;
  absl::Status status = StartAndWait(lane, to_send, to_receive, operations);
  if (!status.ok()) lane.LaneAbort(status);
  return status;
}

// Sums every rank's `in` within the range `share(rank)` into this rank's `out`.
absl::Status SumShares(CollectiveLane& lane, const void* in, void* out,
                       DType dtype, absl::FunctionRef<Range(int)> share) {
  const int self = lane.lane_rank().value();
  const Range mine = share(self);
  std::vector<std::vector<std::byte>> received(lane.lane_size());
  PIPESTAGE_RETURN_IF_ERROR(Exchange(
      lane, [&](int peer) { return PartOf(in, share(peer)); },
      [&](int peer) {
        received[peer].resize(mine.size);
        return MutablePart{received[peer].data(), mine.size};
      }));
  std::vector<const void*> terms;
  for (int rank = 0; rank < lane.lane_size(); ++rank) {
    terms.push_back(rank == self ? PartOf(in, mine).data
                                 : received[rank].data());
  }
  return SumElements(dtype, terms, mine.size / ElementSize(dtype), out);
}

// Sends this rank's range of `out` to all others and receives theirs.
absl::Status GatherShares(CollectiveLane& lane, void* out,
                          absl::FunctionRef<Range(int)> share) {
  const Range mine = share(lane.lane_rank().value());
  return Exchange(
      lane, [&](int) { return PartOf(static_cast<const void*>(out), mine); },
      [&](int peer) { return PartOf(out, share(peer)); });
}

absl::Status CheckSum(CollectiveLane& lane, size_t bytes, DType dtype) {
  if (dtype == DType::kBool) {
    return absl::InvalidArgumentError("bool elements have no sum");
  }
  return CheckWholeElements(bytes, dtype);
}

}  // namespace

absl::Status HostAllReduceSum(CollectiveLane& lane, MutablePart data,
                              DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckSum(lane, data.size, dtype));
  const size_t element_size = ElementSize(dtype);
  const auto share = [&](int rank) {
    return ShareOf(rank, lane.lane_size(), data.size / element_size,
                   element_size);
  };
  const Range mine = share(lane.lane_rank().value());
  PIPESTAGE_RETURN_IF_ERROR(
      SumShares(lane, data.data, PartOf(data.data, mine).data, dtype, share));
  return GatherShares(lane, data.data, share);
}

absl::Status HostAllGather(CollectiveLane& lane, ConstPart in,
                           MutablePart out) {
  PIPESTAGE_RETURN_IF_ERROR(
      CheckAllGatherSizes(in.size, out.size, lane.lane_size()));
  const auto share = [&](int rank) { return Range{rank * in.size, in.size}; };
  const MutablePart mine = PartOf(out.data, share(lane.lane_rank().value()));
  if (in.size > 0 && mine.data != in.data) {
    std::memmove(mine.data, in.data, in.size);
  }
  return GatherShares(lane, out.data, share);
}

absl::Status HostReduceScatterSum(CollectiveLane& lane, ConstPart in,
                                  MutablePart out, DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckSum(lane, out.size, dtype));
  PIPESTAGE_RETURN_IF_ERROR(
      CheckReduceScatterSizes(in.size, out.size, lane.lane_size()));
  return SumShares(lane, in.data, out.data, dtype, [&](int rank) {
    return Range{rank * out.size, out.size};
  });
}

}  // namespace pipestage
