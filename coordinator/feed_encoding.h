#ifndef PIPESTAGE_COORDINATOR_FEED_ENCODING_H_
#define PIPESTAGE_COORDINATOR_FEED_ENCODING_H_

#include "coordinator/worker_connection.h"
#include "grpcpp/support/byte_buffer.h"

namespace pipestage {

// The wire form of CoordinatorMessage{feed: message}, referring to the bytes of
// `message.data` where they are instead of copying them: they live until gRPC
// has sent them. Small ones are copied, which is cheaper.
grpc::ByteBuffer EncodeFeed(FeedMessage message);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_FEED_ENCODING_H_
