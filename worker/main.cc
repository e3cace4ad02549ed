// The worker daemon: holds stages and executes its rank's part of every plan.

#include "worker/torch_parts.h"
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  return pipestage::WorkerMain(argc, argv, pipestage::TorchWorkerParts());
}
