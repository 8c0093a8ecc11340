// TFRecord shards in memory.
#pragma once

#include <penstock/sources.h>

#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock::test {

/// Returns a source over shards in memory, named "0", "1", …
inline SourcePtr tfrecord_source(const std::vector<std::string>& shards,
                                 TFRecordOptions options = {}) {
  std::vector<std::pair<std::string, std::string>> files;
  Paths paths;
  for (const std::string& shard : shards) {
    paths.push_back(std::to_string(paths.size()));
    files.emplace_back(paths.back(), shard);
  }
  options.files = make_memory_file_system(files);
  return make_tfrecord_source(paths, options);
}

inline std::vector<std::string> some_records() {
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 300; ++i)
    records.push_back(test::noise(i % 7 == 0 ? i * 600 : i % 40, i));
  return records;
}

}  // namespace penstock::test
