// The graphs of the record: every stage and source, resumes and feeds.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/penstock.h>

namespace penstock::test {

/// How a graph is run. None of it may show in the record.
struct Setting {
  int threads = 1;
  bool ample = true;  ///< memory; else as little as the graph does with
};

/// Bytes of memory that do, with room to spare, for records of files.
inline constexpr std::uint64_t kLeastOfFiles = 64 << 10;

/// A graph, and the run that is recorded of it.
struct RecordedGraph {
  std::string name;
  /// Called for each setting; takes away what a run before has left behind.
  std::function<Dataset()> build;
  RunOptions options{.seed = 7, .epochs = 2};
  std::uint64_t least = 16 << 10;  ///< bytes of memory that do
  bool unordered = false;          ///< only what comes out counts, not in which order
  /// Not where a state tells how far ahead was drawn.
  bool same_first_state = true;
  /// Without vector instructions libjpeg-turbo decodes, which leaves nothing to a device.
  bool needs_vectors = false;

  friend void PrintTo(const RecordedGraph& graph, std::ostream* out) { *out << graph.name; }
};

/// N consumers that stop behind so many elements each, and go on as M.
struct RecordedRedeal {
  std::string name;
  std::function<Dataset(std::int64_t count, std::int64_t index)> build;
  std::int64_t before = 1;
  std::int64_t after = 1;
  int steps = 0;
  RunOptions options{.seed = 7, .epochs = 1};
  std::uint64_t least = 64 << 10;
};

/// Towers that take turns.
struct RecordedFeed {
  std::string name;
  std::function<Dataset()> build;
  FeedMode mode = FeedMode::per_tower;
  EpochEnd end = EpochEnd::drop;
  std::string devices = "host:0,host:1,host:2";
  bool in_turn = true;
  RunOptions options{.seed = 7, .epochs = 2};
  std::uint64_t least = 256 << 10;
};

std::vector<RecordedGraph> source_graphs();
std::vector<RecordedGraph> image_graphs();
std::vector<RecordedGraph> order_graphs();
std::vector<RecordedGraph> value_graphs();
std::vector<RecordedGraph> work_graphs();
std::vector<RecordedGraph> error_graphs();
std::vector<RecordedRedeal> recorded_redeals();
std::vector<RecordedFeed> recorded_feeds();

}  // namespace penstock::test
