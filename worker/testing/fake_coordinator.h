#ifndef PIPESTAGE_WORKER_TESTING_FAKE_COORDINATOR_H_
#define PIPESTAGE_WORKER_TESTING_FAKE_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "proto/worker_link.grpc.pb.h"
#include "schedule/plan.h"

namespace pipestage {

// A coordinator's end of worker links, on a real gRPC server: welcomes workers,
// keeps the rendezvous, sends what a test says and remembers what workers say.
//
// Thread-safe.
class FakeCoordinator final : public v1::WorkerLink::Service {
 public:
  // Listens on a free port, or on `port`.
  explicit FakeCoordinator(int num_ranks, int port = 0);
  ~FakeCoordinator() override;

  std::string address() const;
  int port() const { return port_; }

  // A refusal of the next streams, until OK again.
  void Refuse(grpc::Status status);
  // Waits until all ranks are attached; false after ten seconds.
  bool WaitForRanks();
  void Send(int rank, const v1::CoordinatorMessage& message);
  // Ends a rank's stream.
  void Cut(int rank);

  // Waits for a message for which `wanted` holds and removes it, with all
  // before it. An empty message after ten seconds.
  using Wanted = std::function<bool(const v1::WorkerMessage&)>;
  v1::WorkerMessage Await(int rank, const Wanted& wanted);
  v1::WorkerMessage Await(int rank, v1::WorkerMessage::KindCase kind);
  // How many streams have said Hello.
  int hellos() const;
  v1::Hello hello(int rank) const;

  // Sends to every rank, and waits for every rank's answer: OK or the first
  // error.
  absl::Status Form(int64_t generation);
  absl::Status Load(const std::string& model, const std::string& version,
                    const std::string& digest, int stages_per_rank);
  void Install(const std::vector<RankPlan>& plans);

 private:
  using Stream =
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;
  struct Attachment {
    Stream* stream = nullptr;  // null when over
    grpc::ServerContext* context = nullptr;
    v1::Hello hello;
    std::vector<v1::WorkerMessage> messages;
    std::vector<v1::StoreGet> gets;
  };

  grpc::Status Attach(grpc::ServerContext* context, Stream* stream) override;
  void OnMessage(int rank, v1::WorkerMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnswerGets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllAttached() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_ranks_;
  int port_ = 0;
  mutable absl::Mutex mu_;
  std::map<int, Attachment> ranks_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> store_ ABSL_GUARDED_BY(mu_);
  grpc::Status refusal_ ABSL_GUARDED_BY(mu_);
  int hellos_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_request_ ABSL_GUARDED_BY(mu_) = 1;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TESTING_FAKE_COORDINATOR_H_
