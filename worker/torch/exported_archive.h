#ifndef PIPESTAGE_WORKER_TORCH_EXPORTED_ARCHIVE_H_
#define PIPESTAGE_WORKER_TORCH_EXPORTED_ARCHIVE_H_

#include <map>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/torch/exported_graph.h"

namespace pipestage {

// What Pipestage reads of a .pt2 archive of torch.export.
struct ExportedArchive {
  ExportedModule module;
  // Lifted constants and buffers that are not persistent, by name.
  std::map<std::string, at::Tensor> constants;
};

// Reads an archive that lies in memory; `bytes` is not needed afterwards.
// Weights and example inputs in it are passed over; nothing in it is unpickled.
//
// FailedPrecondition naming the record and what is wrong with it.
absl::StatusOr<ExportedArchive> ReadExportedArchive(absl::string_view bytes);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_EXPORTED_ARCHIVE_H_
