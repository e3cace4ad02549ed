#ifndef PIPESTAGE_WORKER_TORCH_PARTS_H_
#define PIPESTAGE_WORKER_TORCH_PARTS_H_

#include "worker/worker_main.h"

namespace pipestage {

// What the real worker daemon is made of: stages over LibTorch, and the
// communicators between processes.
WorkerParts TorchWorkerParts();

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_PARTS_H_
