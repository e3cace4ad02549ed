#ifndef PIPESTAGE_PROTO_PROTOCOL_VERSION_H_
#define PIPESTAGE_PROTO_PROTOCOL_VERSION_H_

namespace pipestage {

// Spoken on WorkerLink. Raised when a worker of the old version could no longer
// be driven correctly; coordinator and worker must agree exactly.
inline constexpr int kWorkerLinkProtocolVersion = 3;

}  // namespace pipestage

#endif  // PIPESTAGE_PROTO_PROTOCOL_VERSION_H_
