#ifndef PIPESTAGE_WORKER_TRANSPORT_RENDEZVOUS_STORE_H_
#define PIPESTAGE_WORKER_TRANSPORT_RENDEZVOUS_STORE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "torch/csrc/distributed/c10d/Store.hpp"
#include "worker/transport/rendezvous.h"

namespace pipestage {

// A rendezvous as the store that c10d asks for: set, get and wait, which is all
// that forming a group needs. Everything else throws NotImplementedError.
//
// Throws, as c10d expects; `status` tells afterwards what the rendezvous said.
// Thread-safe. Not to be used after Disconnect, though c10d may still hold it.
class RendezvousStore : public c10d::Store {
 public:
  // `rendezvous` is not owned and is not touched after Disconnect. No single
  // get or wait takes longer than `timeout`, whatever c10d asks for.
  RendezvousStore(Rendezvous* rendezvous, absl::Duration timeout);

  // The first error of the rendezvous, or OK.
  absl::Status status() const;

  // Lets go of the rendezvous. Later calls throw.
  void Disconnect();

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  // Blocks until all keys exist, or throws when the time is over.
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

  // True if all keys are there now.
  bool check(const std::vector<std::string>& keys) override;

  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  int64_t getNumKeys() override;

 private:
  std::string Fetch(const std::string& key, absl::Duration timeout);
  Rendezvous& Connected();
  [[noreturn]] void Fail(const absl::Status& status);

  const absl::Duration timeout_;
  mutable absl::Mutex mu_;
  Rendezvous* rendezvous_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_RENDEZVOUS_STORE_H_
