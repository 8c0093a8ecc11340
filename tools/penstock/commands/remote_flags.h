// The flags for servers, for commands without a pipeline that read from servers or write to them.
#pragma once

#include <CLI/CLI.hpp>

#include <penstock/remote_files.h>

namespace penstock::tool {

/// Adds the flags for servers to a command. REQUIRES: the object lives as long as the command.
class RemoteFlags {
 public:
  explicit RemoteFlags(CLI::App& app);
  /// Applies the flags to the library.
  void choose() const { choose_remote(options_); }

 private:
  RemoteOptions options_;
};

}  // namespace penstock::tool
