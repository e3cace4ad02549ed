#ifndef PIPESTAGE_CLIENT_OUTPUT_ASSEMBLER_H_
#define PIPESTAGE_CLIENT_OUTPUT_ASSEMBLER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/pipeline_service.pb.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// Puts outputs together from the chunks of a StreamEval.
//
// Thread-compatible. Begin() once, then AddChunk() as they come, then Finish().
class OutputAssembler {
 public:
  // Outputs of more than `max_bytes` together are refused before memory is
  // taken.
  explicit OutputAssembler(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Errors: DataLoss for an announcement no server of ours would make;
  // ResourceExhausted if the outputs are too large.
  absl::Status Begin(const v1::OutputHeader& header);

  // Errors: DataLoss if the chunk belongs to no announced tensor, or overflows
  // it.
  absl::Status AddChunk(const v1::TensorChunk& chunk);

  // The outputs by name. DataLoss if bytes are missing.
  absl::StatusOr<std::map<std::string, HostTensor>> Finish() &&;

 private:
  struct Output {
    std::string name;
    HostTensor tensor;
    size_t received = 0;  // bytes
  };

  absl::Status Announce(const v1::TensorAnnouncement& announcement);

  const int64_t max_bytes_;
  bool begun_ = false;
  int64_t announced_bytes_ = 0;
  std::vector<Output> outputs_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_OUTPUT_ASSEMBLER_H_
