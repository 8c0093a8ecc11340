// The position of a job with parameter servers, as a checkpoint stores it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

/// Each server's state as of one moment. Server 0's is taken first, so that no input's position is
/// beyond the state of the other servers.
struct ServedPosition {
  std::vector<SnapshotHead> heads{};  ///< one for each server, without `feeds`
  std::vector<KeptFeed> feeds{};      ///< one for each process

  std::string encode() const;
  /// True for the bytes that `encode` made, complete or not.
  static bool is_one(std::string_view bytes) noexcept;
  /// Throws Error{data_loss} for anything else.
  static ServedPosition decode(std::string_view bytes);
};

}  // namespace penstock::towers
