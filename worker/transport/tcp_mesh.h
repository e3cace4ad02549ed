#ifndef PIPESTAGE_WORKER_TRANSPORT_TCP_MESH_H_
#define PIPESTAGE_WORKER_TRANSPORT_TCP_MESH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/transport/communicator.h"
#include "worker/transport/unique_fd.h"

namespace pipestage {

// Connects this rank with every other by `lanes` sockets each and returns them
// as [lane * size + peer]; our own places are empty. Non-blocking, without
// Nagle's delay. Nothing listens any more afterwards.
//
// Every rank listens at a free port of its host address and publishes address,
// port and a random secret in the rendezvous. Higher ranks dial lower ones;
// each end shows the other's secret, so whoever is not of the rendezvous gets
// nowhere.
//
// Errors: DeadlineExceeded if a rank does not come, Unavailable,
// InvalidArgument if the host is not of this machine, or what the rendezvous
// says.
absl::StatusOr<std::vector<UniqueFd>> ConnectTcpMesh(
    const CommunicatorOptions& options, int lanes);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_TCP_MESH_H_
