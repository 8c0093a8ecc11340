// The flag --memory of commands that pass over shards.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "pipelines/numbers.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {

class MemoryFlag {
 public:
  void add_to(CLI::App& app) {
    app.add_option("--memory", text_,
                   "of what is read and decoded at once (default: a quarter of the container's "
                   "memory, at most 2GiB)")
        ->type_name("BYTES");
  }
  /// Returns RunOptions::memory_bytes. Throws UsageError for a text that is no size.
  std::uint64_t bytes() const {
    try {
      return text_.empty() ? 0 : static_cast<std::uint64_t>(parse_bytes(text_));
    } catch (const UsageError& error) {
      throw error.at("--memory");
    }
  }

 private:
  std::string text_;
};

}  // namespace penstock::tool
