// Graphs of every kind, made by workers: what they give is what the record says of them.
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include <penstock/internal/module.h>

#include "pipeline/remote/packed.h"
#include "pipeline/stage/fingerprint.h"
#include "tests/cluster/certificates.h"
#include "tests/record/observe.h"
#include "tests/record/record.h"
#include "tests/remote/loop_workers.h"
#include "tests/support/files.h"
#include "tests/support/sanitizer.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

/// Who makes the elements of a run.
struct Ways {
  const char* name;
  int count;
  bool troubled = false;  ///< one after the other is killed or frozen, every 15 ms on average
  bool grpc = false;      ///< by the links that users have
  bool tls = false;
  bool packs = false;   ///< what they send is compressed, where the build can
  bool shared = false;  ///< by two runs at once, of which each element is made for one

  friend void PrintTo(const Ways& ways, std::ostream* out) { *out << ways.name; }
};

/// Workers of whatever dataset a run is of, until the test ends.
class Hosts {
 public:
  Hosts(const Ways& ways, WorkerSecurity security) : ways_(ways), security_(std::move(security)) {}

  Setting setting(int threads) {
    return {threads, true,
            [this](const Dataset& dataset) {
              WorkerOptions options = begin(dataset);
              if (ways_.packs && remote::has_lz4()) options.wire = WorkerWire::lz4;
              return options;
            },
            [this](const Stats& stats) {
              const std::lock_guard lock(mutex_);
              there += stats.groups_of_workers;
              here += stats.groups_made_here;
              for (const WorkerStats& worker : stats.workers)
                if (!worker.problem.empty()) problem = worker.problem;
              for (const WorkerStats& worker : stats.workers) had += worker.shared;
            }};
  }

  const WorkerSecurity& security() const noexcept { return security_; }

  std::uint64_t there = 0;
  std::uint64_t here = 0;
  std::uint64_t had = 0;  // elements that were made for another run
  std::string problem;

 private:
  WorkerOptions begin(const Dataset& dataset) {
    if (ways_.grpc) {
      remote::use_worker_transport(grpc());
      return distant_.emplace_back(dataset, ways_.count, 1, security_).options(0);
    }
    const std::lock_guard lock(mutex_);
    if (ways_.shared) {
      const std::uint64_t graph = Fingerprint(*dataset.node()).digest();
      const auto known = sharing_.find(graph);
      if (known != sharing_.end()) return known->second->options(0);
      sharing_[graph] = &hosts_.emplace_back(dataset, ways_.count, 1, std::uint64_t{16} << 20);
      return hosts_.back().options(0);
    }
    LoopWorkers& workers = hosts_.emplace_back(dataset, ways_.count);
    if (ways_.troubled)
      trouble_.emplace_back([&workers, seed = static_cast<unsigned>(hosts_.size())](
                                const std::stop_token& stop) { workers.trouble(stop, seed, 25); });
    return workers.options(0);
  }
  static const WorkerTransport& grpc() {
    return *reinterpret_cast<WorkerTransportFn>(
        module_symbol("libpenstock_cluster.so", kWorkerTransportSymbol, [](void* symbol) {
          return reinterpret_cast<WorkerTransportFn>(symbol)()->version ==
                 WorkerTransport::kVersion;
        }))();
  }

  const Ways ways_;
  const WorkerSecurity security_;
  std::mutex mutex_;
  std::map<std::uint64_t, LoopWorkers*> sharing_;  // by graph
  std::deque<LoopWorkers> hosts_;
  std::deque<WorkersHere> distant_;
  std::deque<std::jthread> trouble_;
};

bool has_grpc() {
#ifdef PENSTOCK_CLUSTER_MODULE
  return true;
#else
  return false;
#endif
}

/// What only the process that runs a graph can make, and why.
const std::map<std::string, std::string>& made_here() {
  static const char* const kNested = "datasets that are made while it runs are its own";
  static const char* const kFile = "it alone has the cache's file";
  static const char* const kRefused = "nothing is made of it";
  static const std::map<std::string, std::string> graphs{
      {"interleave", kNested},
      {"flat_map_of_files", kNested},
      {"errors_of_callables", kNested},
      {"errors_of_callables_skipped", kNested},
      {"cache_file", kFile},
      {"snapshot", kFile},
      {"feed_refused", kRefused},
      {"feed_that_can_not_be_divided", kRefused}};
  return graphs;
}

WorkerSecurity security_for(const Ways& ways, const TempFolder& folder) {
  if (!ways.tls || !cluster::test::make_certificates(folder.path())) return {};
  return {folder / "rank.pem", folder / "rank.key", folder / "ca.pem", "of this job"};
}

/// That this is what the record says, and that workers made it.
void compare(const std::string& name, const Observed& now, const Hosts& hosts) {
  static const Record golden = read_record(record_path());
  ASSERT_TRUE(golden.contains(name));
  const Entry& was = golden.at(name);
  const std::string other = difference(lines_of(was), lines_of(Entry{now.about, now.run, {}}));
  ASSERT_TRUE(other.empty()) << name << ":\n" << other;
  ASSERT_TRUE(now.resumed.empty()) << difference({}, now.resumed);
  const double share = static_cast<double>(hosts.there) /
                       std::max(1.0, static_cast<double>(hosts.there + hosts.here));
  testing::Test::RecordProperty("share_of_workers", std::to_string(share));
  if (made_here().contains(name)) {
    EXPECT_LT(share, 0.9) << "it is listed as made here: " << made_here().at(name);
  } else {
    EXPECT_GE(share, 0.9) << hosts.there << " groups of workers, " << hosts.here << " made here; "
                          << hosts.problem;
  }
}

/// Why two runs at once are not each what the record says of one.
std::string alone(const RecordedGraph& graph) {
  if (!graph.options.quarantine.empty() || graph.name == "cache_file" || graph.name == "snapshot")
    return "two runs would write the same file";
  if (graph.name == "errors_retried" || graph.name == "errors_that_pass")
    return "what another run has read is not read again";
  return "";
}
std::string alone(const RecordedFeed& /*feed*/) {
  return "";
}

template <typename Case>
class OfWorkers : public testing::TestWithParam<std::tuple<Ways, Case>> {
 protected:
  void observe_and_compare() {
    const auto& ways = std::get<0>(this->GetParam());
    const auto& of = std::get<1>(this->GetParam());
    if (ways.grpc && !has_grpc()) GTEST_SKIP() << "SKIPPED: gRPC's module is not built";
    const TempFolder folder;
    Hosts hosts(ways, security_for(ways, folder));
    if (ways.tls && hosts.security().token.empty())
      GTEST_SKIP() << "SKIPPED: openssl is not installed";
    if (!ways.shared) return compare(of.name, observe(of, hosts.setting(2)), hosts);
    if (const std::string why = alone(of); !why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
    // Building may write the files that are read, so it is done once.
    std::once_flag built;
    std::optional<Dataset> dataset;
    Case same = of;
    same.build = [&] {
      std::call_once(built, [&] { dataset = of.build(); });
      return *dataset;
    };
    Observed first;
    Observed second;
    {
      std::jthread other([&] { second = observe(same, hosts.setting(2)); });
      first = observe(same, hosts.setting(2));
    }
    compare(of.name, first, hosts);
    compare(of.name, second, hosts);
    this->RecordProperty("shared", std::to_string(hosts.had));
  }

 private:
  const TimeLimit limit_{300};
};

using Graphs = OfWorkers<RecordedGraph>;
TEST_P(Graphs, AreWhatTheRecordSays) {
  observe_and_compare();
}
using Feeds = OfWorkers<RecordedFeed>;
TEST_P(Feeds, AreWhatTheRecordSays) {
  observe_and_compare();
}

std::vector<RecordedGraph> all_graphs() {
  std::vector<RecordedGraph> all;
  for (const auto& list : {source_graphs(), image_graphs(), order_graphs(), value_graphs(),
                           work_graphs(), error_graphs()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

// What a sanitizer watches takes several times as long.
const auto kWays =
    kAddressSanitizer || kThreadSanitizer
        ? std::vector<Ways>{{.name = "three", .count = 3, .packs = true},
                            {.name = "two_that_die", .count = 2, .troubled = true},
                            {.name = "shared", .count = 1, .shared = true}}
        : std::vector<Ways>{{.name = "one", .count = 1},
                            {.name = "three", .count = 3, .packs = true},
                            {.name = "two_that_die", .count = 2, .troubled = true},
                            {.name = "shared", .count = 1, .shared = true},
                            {.name = "four_by_grpc", .count = 4, .grpc = true, .packs = true},
                            {.name = "two_by_tls", .count = 2, .grpc = true, .tls = true}};

template <typename Case>
std::string name_of(const testing::TestParamInfo<std::tuple<Ways, Case>>& test) {
  return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
}
INSTANTIATE_TEST_SUITE_P(Workers, Graphs,
                         testing::Combine(testing::ValuesIn(kWays),
                                          testing::ValuesIn(all_graphs())),
                         &name_of<RecordedGraph>);
INSTANTIATE_TEST_SUITE_P(Workers, Feeds,
                         testing::Combine(testing::ValuesIn(kWays),
                                          testing::ValuesIn(recorded_feeds())),
                         &name_of<RecordedFeed>);

}  // namespace
}  // namespace penstock::test
