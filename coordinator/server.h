#ifndef PIPESTAGE_COORDINATOR_SERVER_H_
#define PIPESTAGE_COORDINATOR_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/admission.h"
#include "coordinator/dispatcher.h"
#include "coordinator/eval_runner.h"
#include "coordinator/link_service.h"
#include "coordinator/membership.h"
#include "coordinator/model_registry.h"
#include "coordinator/model_service.h"
#include "coordinator/pipeline.h"
#include "coordinator/pipeline_service.h"
#include "coordinator/plan_cache.h"
#include "coordinator/startup_models.h"
#include "coordinator/status_service.h"
#include "coordinator/timers.h"
#include "coordinator/traffic.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "proto/status_service.pb.h"

namespace pipestage {

// The coordinator: makes its parts, wires them, and owns the gRPC server with
// all services, health and reflection.
//
// Order: Create, Start, then Drain or Stop, or both. Thread-safe after Start.
class Server final : private WorkerEvents {
 public:
  struct Options {
    std::string address = "127.0.0.1:7070";  // port 0: any free one
    // There is no authentication: listening beyond loopback must be asked for.
    bool allow_any_address = false;
    std::string model_repository;
    std::vector<v1::ModelRef> load;  // once the workers are there
    int64_t max_message_bytes = 64 << 20;
    int64_t max_call_bytes = int64_t{2} << 30;  // of a StreamEval's tensors
    Membership::Options membership;
    Admission::Options admission;  // its clock is set by the server
    PlanCache::Options plans;
    Dispatcher::Options dispatcher;
    // Of the clients of StreamEval.
    TransferPace::Options pace;
    // In which a stream of WorkerLink has to say who it is.
    absl::Duration hello_timeout = absl::Seconds(10);
    Clock* clock = Clock::Real();
  };

  // InvalidArgument for numbers out of range and addresses that are none;
  // FailedPrecondition for an address beyond loopback.
  static absl::StatusOr<std::unique_ptr<Server>> Create(Options options);
  // Stops if it still runs.
  ~Server() override;

  // Listens. Unavailable if the address cannot be bound.
  absl::Status Start();
  // "127.0.0.1:7070", with the real port.
  const std::string& address() const { return address_; }

  // Refuses new calls (UNAVAILABLE, DRAINING), waits until those admitted are
  // done or `grace` has passed, tells the workers to exit, and stops.
  void Drain(absl::Duration grace);
  // Ends everything now: calls get UNAVAILABLE. A second one does nothing.
  void Stop();

  v1::Status GetStatus() const;

 private:
  explicit Server(Options options);

  void OnViewChanged(const std::shared_ptr<const PipelineView>& view) override;
  void OnStagesLoaded(const Attachment& from,
                      const v1::StagesLoaded& loaded) override;
  void OnCallMessage(const Attachment& from,
                     v1::WorkerMessage& message) override;
  void OnIdle(const Attachment& from, absl::Time since) override;

  void ArmTick();
  bool IsServing() const;
  void UpdateHealth() ABSL_LOCKS_EXCLUDED(health_mu_);
  bool IsIdle() const;

  const Options options_;
  const absl::Time started_at_;
  std::string address_;
  std::atomic<bool> draining_ = false;

  // In order of dependence: what is below may use what is above.
  Timers timers_;
  Traffic traffic_;
  Pipeline pipeline_;
  ModelRegistry models_;
  PlanCache plans_;
  Admission admission_;
  Dispatcher dispatcher_;
  EvalRunner runner_;
  StartupModels startup_models_;

  LinkService link_service_;
  PipelineServiceImpl pipeline_service_;
  ModelServiceImpl model_service_;
  StatusServiceImpl status_service_;
  std::unique_ptr<grpc::Server> server_;
  // Of server_; null until it listens.
  std::atomic<grpc::HealthCheckServiceInterface*> health_ = nullptr;

  // Serialises the reading of the state with the setting of health.
  absl::Mutex health_mu_;
  absl::Mutex stop_mu_;
  bool stopped_ ABSL_GUARDED_BY(stop_mu_) = false;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_SERVER_H_
