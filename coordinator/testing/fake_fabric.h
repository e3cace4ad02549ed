#ifndef PIPESTAGE_COORDINATOR_TESTING_FAKE_FABRIC_H_
#define PIPESTAGE_COORDINATOR_TESTING_FAKE_FABRIC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace pipestage {

// The data plane of a set of FakeWorkers: activations by what they are, in
// memory.
//
// Thread-safe.
class FakeFabric {
 public:
  struct Key {
    int64_t generation = 0;
    int64_t call = 0;
    int32_t stage = 0;  // the one that made it
    int32_t microbatch = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Unset = void: the sender's part of the call is dead.
  using Activation = std::optional<std::vector<double>>;

  void Put(const Key& key, Activation activation) {
    absl::MutexLock lock(&mu_);
    activations_[key] = std::move(activation);
  }

  // Waits for it. Nullopt once the generation is aborted.
  std::optional<Activation> Take(const Key& key) {
    absl::MutexLock lock(&mu_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return aborted_ >= key.generation || activations_.count(key) > 0;
    };
    mu_.Await(absl::Condition(&there));
    if (aborted_ >= key.generation) return std::nullopt;
    auto node = activations_.extract(key);
    return std::move(node.mapped());
  }

  void Abort(int64_t generation) {
    absl::MutexLock lock(&mu_);
    aborted_ = std::max(aborted_, generation);
  }

  bool empty() {
    absl::MutexLock lock(&mu_);
    return activations_.empty();
  }

 private:
  absl::Mutex mu_;
  std::map<Key, Activation> activations_ ABSL_GUARDED_BY(mu_);
  int64_t aborted_ ABSL_GUARDED_BY(mu_) = -1;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TESTING_FAKE_FABRIC_H_
