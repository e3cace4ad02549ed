#ifndef PIPESTAGE_COORDINATOR_LINK_SERVICE_H_
#define PIPESTAGE_COORDINATOR_LINK_SERVICE_H_

#include "base/clock.h"
#include "coordinator/pipeline.h"
#include "coordinator/timers.h"
#include "coordinator/traffic.h"
#include "grpcpp/grpcpp.h"
#include "proto/worker_link.grpc.pb.h"

namespace pipestage {

// Serves WorkerLink: one reactor a stream, whose messages go to the Pipeline
// and whose writes are what the Pipeline sends.
//
// The method is served raw: feeds leave as references to the request's own
// bytes.
//
// Thread-safe.
class LinkService final : public v1::WorkerLink::WithRawCallbackMethod_Attach<
                              v1::WorkerLink::Service> {
 public:
  // Not owned; all outlive the server.
  struct Dependencies {
    Clock* clock;
    Timers* timers;
    Pipeline* pipeline;
    Traffic* traffic;
    // In which a stream has to say Hello.
    absl::Duration hello_timeout;
  };
  explicit LinkService(const Dependencies& on) : on_(on) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attach(
      grpc::CallbackServerContext* context) override;

 private:
  const Dependencies on_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_LINK_SERVICE_H_
