// The room that gRPC needs in a process.
#pragma once

namespace penstock::cluster {

/// Throws Error{resource_exhausted} unless this process can open some more descriptors and start
/// some more threads. Where gRPC gets none, it aborts, or waits for ever. Raises the soft limit of
/// descriptors if that helps. Takes a moment.
void require_room_for_grpc();

}  // namespace penstock::cluster
