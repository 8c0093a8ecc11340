// Tar shards in memory, and their elements.
#pragma once

#include <penstock/sources.h>

#include "tests/support/records.h"

namespace penstock::test {

using Values = std::vector<std::string>;

/// Returns a source over shards in memory, named "0", "1", …
inline SourcePtr tar_source(const std::vector<std::string>& shards, TarOptions options = {}) {
  std::vector<std::pair<std::string, std::string>> files;
  Paths paths;
  for (const std::string& shard : shards) {
    paths.push_back(std::to_string(paths.size()));
    files.emplace_back(paths.back(), shard);
  }
  options.files = make_memory_file_system(files);
  return make_tar_source(paths, options);
}

/// Returns all elements. A failed one is "!" and the error's cause.
inline std::vector<Values> read(const Source& source) {
  std::vector<Values> out;
  for (const ReadOutcome& outcome : read_source(source))
    out.push_back(outcome.error ? Values{"!" + outcome.error->cause()} : outcome.values);
  return out;
}

}  // namespace penstock::test
