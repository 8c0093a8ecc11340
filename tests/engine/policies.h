// Datasets with bad elements, and runs of them as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/sources.h>

#include "tests/support/files.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"
#include "tests/support/time_limit.h"

namespace penstock::test {

/// Three shards of ten records in memory. Reads of them can be made to fail one by one.
struct Files {
  Files() {
    std::vector<std::pair<std::string, std::string>> files;
    for (int shard = 0; shard < 3; ++shard) {
      std::vector<std::string> records;
      for (int i = 0; i < 10; ++i)
        records.push_back(std::to_string(10 * shard + i) + test::noise(30));
      files.emplace_back("part-" + std::to_string(shard), test::tfrecords_of(records));
    }
    inner = make_memory_file_system(files);
  }
  FileSystemPtr inner;
};

inline std::string all_of(const Dataset& dataset, const RunOptions& options,
                          std::vector<Error>& errors) {
  std::string text;
  Iterator iterator = dataset.iterate(options);
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    if (next.is_error()) {
      errors.push_back(next.error());
    } else {
      for (std::int64_t i = 0; i < next->valid_rows; ++i) text += (*next)["record"].bytes_at(i);
    }
  }
  return text;
}

/// Returns the output until the end of the run or `most` elements, with the texts of errors. At the
/// end it adds the number of skipped errors.
inline std::string all_of(Iterator& iterator, std::size_t most = SIZE_MAX) {
  const test::TimeLimit limit(60);
  std::string text;
  for (std::size_t i = 0; i < most; ++i) {
    Next next = iterator.next();
    if (next.is_end()) {
      if (!iterator.next_epoch()) {
        return text + "; " + std::to_string(iterator.stats().errors.count) + " errors";
      }
    } else if (next.is_error()) {
      text += "\n" + std::string(next.error().what()) + "\n";
    } else {
      text += test::text_of(*next) + " ";
    }
  }
  return text;
}

}  // namespace penstock::test
