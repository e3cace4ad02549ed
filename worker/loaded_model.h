#ifndef PIPESTAGE_WORKER_LOADED_MODEL_H_
#define PIPESTAGE_WORKER_LOADED_MODEL_H_

#include <memory>
#include <vector>

#include "base/ids.h"
#include "package/contract.h"
#include "worker/stage.h"

namespace pipestage {

// The stages of a model that this worker runs. Never changes once made; what it
// points to is used by the compute thread alone.
struct LoadedModel {
  // Never null. Keeps the package it belongs to alive.
  std::shared_ptr<const PackageContract> contract;
  // By stage; null where another worker has it.
  std::vector<std::unique_ptr<Stage>> stages;
  // Null unless the last stage is here and the model has a loss.
  std::unique_ptr<LossFunction> loss;

  Stage* stage(StageIndex index) const {
    return index.value() < stages.size() ? stages[index.value()].get()
                                         : nullptr;
  }
  int64_t weight_bytes() const {
    int64_t bytes = 0;
    for (const auto& stage : stages) {
      if (stage != nullptr) bytes += stage->weight_bytes();
    }
    return bytes;
  }
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_LOADED_MODEL_H_
