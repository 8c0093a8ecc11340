// The graphs of the record: every stage and source, resumed runs, and feeds.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/penstock.h>

namespace penstock::test {

/// The way in which a graph is run. None of it may change the record.
struct Setting {
  int threads = 1;
  bool ample = true;  ///< memory; false: the least with which the graph can run
  /// Returns input workers that make elements of this dataset, too; empty: none.
  std::function<WorkerOptions(const Dataset&)> workers{};
  /// Receives the statistics of each run at its end.
  std::function<void(const Stats&)> ended{};
};

/// Bytes of memory that are enough, with some room to spare, for records of files.
inline constexpr std::uint64_t kLeastOfFiles = 64 << 10;

/// A graph, and the options of the run that is recorded.
struct RecordedGraph {
  std::string name;
  /// Builds the graph. Called for each setting; removes the remains of an earlier run.
  std::function<Dataset()> build;
  RunOptions options{.seed = 7, .epochs = 2};
  std::uint64_t least = 16 << 10;  ///< bytes of memory that are enough
  bool unordered = false;          ///< the order of the outputs does not count
  /// False if a state says how far ahead elements were pulled.
  bool same_first_state = true;
  /// Without vector instructions, libjpeg-turbo decodes, and leaves no work to a device.
  bool needs_vectors = false;

  friend void PrintTo(const RecordedGraph& graph, std::ostream* out) { *out << graph.name; }
};

/// A run of `before` consumers that stop after `steps` elements each, resumed by `after` consumers.
struct RecordedRedeal {
  std::string name;
  std::function<Dataset(std::int64_t count, std::int64_t index)> build;
  std::int64_t before = 1;
  std::int64_t after = 1;
  int steps = 0;
  RunOptions options{.seed = 7, .epochs = 1};
  std::uint64_t least = 64 << 10;
};

/// A feed of towers that take turns.
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
