#ifndef PIPESTAGE_COORDINATOR_MERGED_OUTPUT_H_
#define PIPESTAGE_COORDINATOR_MERGED_OUTPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/eval_setup.h"
#include "proto/tensor.pb.h"
#include "proto/worker_link.pb.h"
#include "tensor/host_tensor.h"
#include "tensor/microbatches.h"

namespace pipestage {

// One output of a call: its parts by microbatch, in any order, written where
// they belong in the reply's tensor.
//
// Thread-compatible. `layout` and `out` outlive it.
class MergedOutput {
 public:
  // `max_bytes` bounds an output whose size depends on the data.
  MergedOutput(const OutputLayout& layout, const Microbatches& microbatches,
               int64_t max_bytes, v1::Tensor* out);

  // Takes the parts in `data`, whose bytes may be moved away. False if they
  // were there already.
  //
  // Errors: Internal for microbatches that do not exist or parts of another
  // size than the contract gives; ResourceExhausted beyond max_bytes.
  absl::StatusOr<bool> Add(v1::OutputData& data);

  bool complete() const { return num_received_ == microbatches_.count(); }
  // Writes what could not be written before all parts were there. Call once,
  // when complete. Internal if parts do not fit each other.
  absl::Status Finish();

 private:
  absl::StatusOr<bool> MarkReceived(int64_t first, int64_t count);
  int64_t FirstIndex(int64_t microbatch) const;
  absl::Status Place(v1::OutputData& data);
  void PlaceContiguous(std::string& bytes, size_t offset);
  absl::Status KeepParts(v1::OutputData& data);
  absl::StatusOr<HostTensor> TakePart(const v1::TensorSpec& spec,
                                      const Buffer& bytes, size_t offset) const;
  std::string name() const { return layout_.contract->name; }

  const OutputLayout& layout_;
  const Microbatches microbatches_;
  const int64_t num_large_;
  const int64_t max_bytes_;
  v1::Tensor* const out_;
  // Of the merged tensor: rows along the axis are `row_bytes_` each, in
  // `outer_` blocks. Unused when sizes depend on the data.
  int64_t outer_ = 1;
  int64_t row_bytes_ = 0;
  std::vector<bool> received_;
  int64_t num_received_ = 0;
  std::vector<HostTensor> parts_;  // data dependent: kept until all are there
  int64_t parts_bytes_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_MERGED_OUTPUT_H_
