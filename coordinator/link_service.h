#ifndef PIPESTAGE_COORDINATOR_LINK_SERVICE_H_
#define PIPESTAGE_COORDINATOR_LINK_SERVICE_H_

#include "coordinator/pipeline.h"
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
  // Not owned; both outlive the server.
  LinkService(Pipeline* pipeline, Traffic* traffic)
      : pipeline_(pipeline), traffic_(traffic) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attach(
      grpc::CallbackServerContext* context) override;

 private:
  Pipeline* const pipeline_;
  Traffic* const traffic_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_LINK_SERVICE_H_
