#include "worker/torch_worker_main.h"

int main(int argc, char** argv) {
  return pipestage::TorchWorkerMain(argc, argv);
}
