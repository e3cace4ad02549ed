#ifndef PIPESTAGE_WORKER_TORCH_WORKER_MAIN_H_
#define PIPESTAGE_WORKER_TORCH_WORKER_MAIN_H_

namespace pipestage {

// WorkerMain with stages of LibTorch and every transport there is. A program
// that links more modules than the built-in ones
// (worker/torch/module_registry.h) calls it from its own main.
int TorchWorkerMain(int argc, char** argv);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_WORKER_MAIN_H_
