// Settings that both ends of a connection to a parameter server share.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <grpc/impl/codegen/grpc_types.h>

namespace penstock::cluster {

inline constexpr const char* kParameterMethod = "/penstock.Parameters/Ask";

/// Returns channel arguments that transfer large values in large pieces. They also cut off a peer
/// that does not accept the data sent to it. Since gRPC is told to check that the other side is
/// alive, it also has Linux end such connections (TCP_USER_TIMEOUT).
inline std::vector<std::pair<std::string, int>> bulk_arguments(
    std::chrono::milliseconds peer_timeout) {
  const auto ms = static_cast<int>(
      std::clamp<std::chrono::milliseconds::rep>(peer_timeout.count(), 100, 3'600'000));
  return {
      {GRPC_ARG_KEEPALIVE_TIME_MS, ms},           {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0}, {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20},
      {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20},   {GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20},
      {GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10},  {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20}};
}

}  // namespace penstock::cluster
