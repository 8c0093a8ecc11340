// The graphs that the crash harness runs, with every kind of reader, shuffle, shard and batch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <penstock/penstock.h>

namespace penstock::test {

struct CrashGraph {
  std::string name;
  std::function<Dataset()> build;  ///< {id: i64, noise: i64, …}, or batches of it
  OnError on_error = OnError::fail;
};

/// Writes the files that the graphs read: 180 records in three shards of each format.
void write_crash_data(const std::string& folder);
std::vector<CrashGraph> crash_graphs(const std::string& folder);

}  // namespace penstock::test
