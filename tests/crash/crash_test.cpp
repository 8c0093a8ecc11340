// Kills a consumer at any moment and resumes it, until what it acknowledged can be compared with a
// run that was never killed.
//
// PENSTOCK_KILLS: how many kills (120); the script tools/reliability.sh asks for 2,000 and writes
// the figures to bench/results/reliability.md.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>

#include <penstock/rng.h>

#include "tests/crash/graphs.h"
#include "tests/crash/log.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/process.h"

namespace penstock::test {
namespace {

const std::vector<std::string> kPoints{
    "create",    "write", "sync",     "keep",        "rename",     "sync folder", "acknowledged",
    "delivered", "saved", "snapshot", "handed over", "group done", "batch made"};

struct Figures {
  int kills = 0;
  int at_points = 0;
  int runs = 0;  // that came to their end
  Difference difference;
  std::vector<std::string> broken;
  std::vector<double> first_batch_ms;
  std::map<std::string, int> points;
  std::size_t largest_state = 0;
  std::string largest_graph;
};

class Crash : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    write_crash_data(folder_->path());
    graphs_ = new std::vector<CrashGraph>(crash_graphs(folder_->path()));
  }
  static void TearDownTestSuite() {
    delete graphs_;
    delete folder_;
  }

  static Process victim(std::size_t graph, const std::string& name, int save_every, int threads,
                        const std::string& point, int pace_us, bool mutant) {
    std::vector<std::string> arguments{test::built("crash_victim"),  folder_->path(),
                                       std::to_string(graph),        *folder_ / (name + ".log"),
                                       *folder_ / (name + ".state"), std::to_string(save_every),
                                       std::to_string(threads)};
    if (mutant) arguments.emplace_back("mutant");
    return Process(std::move(arguments),
                   {"PENSTOCK_KILL_AT=" + point, "PENSTOCK_PACE=" + std::to_string(pace_us)});
  }

  static std::vector<Delivery> uninterrupted(std::size_t graph) {
    const std::string name = "whole-" + std::to_string(graph);
    EXPECT_EQ(victim(graph, name, 1'000'000, 2, "", 0, false).wait(), 0) << (*graphs_)[graph].name;
    const LogReading reading = read_log(*folder_ / (name + ".log"));
    EXPECT_TRUE(reading.finished);
    EXPECT_GT(reading.deliveries.size(), 8U) << (*graphs_)[graph].name;
    return reading.deliveries;
  }

  /// One consumer, killed again and again until it comes to its end; the mutant always right behind
  /// a save, which makes each kill count.
  static void torment(std::size_t graph, const std::vector<Delivery>& expected, int round,
                      bool mutant, Rng& random, Figures& figures) {
    const std::string name = "run-" + std::to_string(graph) + "-" + std::to_string(round);
    const int save_every = 1 + static_cast<int>(random.below(9));
    for (int process = 0;; ++process) {
      ASSERT_LT(process, 300) << "no end";
      const bool by_point = mutant || random.coin(0.5);
      const std::string point =
          by_point ? (mutant ? "saved" : kPoints[random.below(kPoints.size())]) + ":" +
                         std::to_string(1 + random.below(4U + static_cast<unsigned>(process)))
                   : "";
      Process child = victim(graph, name, save_every, 1 + static_cast<int>(random.below(4)), point,
                             by_point ? 0 : 200, mutant);
      if (!by_point) {
        const auto wait = 2'000 + random.below(20'000U + 2'000U * static_cast<unsigned>(process));
        std::this_thread::sleep_for(std::chrono::microseconds(wait));
        child.signal(SIGKILL);
      }
      const int code = child.wait();
      if (code == 0) break;
      ASSERT_EQ(code, 128 + SIGKILL) << (*graphs_)[graph].name;
      ++figures.kills;
      figures.at_points += by_point ? 1 : 0;
    }
    const LogReading reading = read_log(*folder_ / (name + ".log"));
    EXPECT_TRUE(reading.finished);
    ++figures.runs;
    const Difference difference = compare(expected, reading.deliveries);
    figures.difference.missing += difference.missing;
    figures.difference.repeated += difference.repeated;
    figures.difference.out_of_order += difference.out_of_order;
    if (!mutant) {
      EXPECT_TRUE(difference.none())
          << (*graphs_)[graph].name << ": missing " << difference.missing << ", repeated "
          << difference.repeated << ", out of order " << difference.out_of_order;
      EXPECT_THAT(reading.broken, testing::IsEmpty());
    }
    figures.broken.insert(figures.broken.end(), reading.broken.begin(), reading.broken.end());
    figures.first_batch_ms.insert(figures.first_batch_ms.end(), reading.first_batch_ms.begin(),
                                  reading.first_batch_ms.end());
    for (const auto& [where, count] : reading.kill_points) figures.points[where] += count;
    if (reading.largest_state > figures.largest_state) {
      figures.largest_state = reading.largest_state;
      figures.largest_graph = (*graphs_)[graph].name;
    }
  }

  static TempFolder* folder_;
  static std::vector<CrashGraph>* graphs_;
};

TempFolder* Crash::folder_ = nullptr;
std::vector<CrashGraph>* Crash::graphs_ = nullptr;

void print(Figures figures, std::size_t graphs) {
  std::sort(figures.first_batch_ms.begin(), figures.first_batch_ms.end());
  const auto quantile = [&](double share) {
    const auto at =
        static_cast<std::size_t>(share * static_cast<double>(figures.first_batch_ms.size() - 1));
    return figures.first_batch_ms.at(at);
  };
  std::printf(
      "figure: kills %d (%d at %zu kill points, the rest at random moments), graphs %zu, "
      "runs %d\n",
      figures.kills, figures.at_points, figures.points.size(), graphs, figures.runs);
  std::printf("figure: missing %d, repeated %d, out of order %d, broken promises %zu\n",
              figures.difference.missing, figures.difference.repeated,
              figures.difference.out_of_order, figures.broken.size());
  std::printf(
      "figure: from reading the state to the first batch: p50 %.1f ms, p99 "
      "%.1f ms, longest %.1f ms\n",
      quantile(0.5), quantile(0.99), figures.first_batch_ms.back());
  std::printf("figure: largest state %zu bytes (%s)\n", figures.largest_state,
              figures.largest_graph.c_str());
  for (const auto& [point, count] : figures.points)
    std::printf("figure: kills at \"%s\": %d\n", point.c_str(), count);
}

TEST_F(Crash, DeliveriesAcrossKills) {
  const char* wanted = std::getenv("PENSTOCK_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 120;
  Rng random(2026, 0, 0);
  Figures figures;
  std::vector<std::vector<Delivery>> expected;
  for (std::size_t graph = 0; graph < graphs_->size(); ++graph)
    expected.push_back(uninterrupted(graph));
  for (int round = 0; figures.kills < kills; ++round) {
    for (std::size_t graph = 0; graph < graphs_->size(); ++graph) {
      torment(graph, expected[graph], round, false, random, figures);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_LE(figures.largest_state, 4096U) << figures.largest_graph;
  print(figures, graphs_->size());
}

TEST_F(Crash, StateSavedOneBatchEarly) {
  Rng random(3, 0, 0);
  for (const std::size_t graph : {std::size_t{0}, std::size_t{6}, graphs_->size() - 2}) {
    Figures figures;
    const std::vector<Delivery> expected = uninterrupted(graph);
    for (int round = 0; figures.kills < 4; ++round) {
      torment(graph, expected, 1000 + round, true, random, figures);
      if (HasFatalFailure()) return;
    }
    EXPECT_FALSE(figures.difference.none()) << (*graphs_)[graph].name;
    EXPECT_GT(figures.difference.repeated, 0) << (*graphs_)[graph].name;
  }
}

TEST(Compare, SeesEveryDifference) {
  const std::vector<Delivery> expected{"a", "b", "c", "c"};
  struct Case {
    std::vector<Delivery> seen;
    int missing, repeated, out_of_order;
  };
  for (const Case& test : std::vector<Case>{{{"a", "b", "c", "c"}, 0, 0, 0},
                                            {{"a", "b", "c"}, 1, 0, 0},
                                            {{"a", "c", "c"}, 1, 0, 1},
                                            {{"a", "b", "b", "c", "c"}, 0, 1, 1},
                                            {{"b", "a", "c", "c"}, 0, 0, 2},
                                            {{}, 4, 0, 0}}) {
    const Difference difference = compare(expected, test.seen);
    EXPECT_EQ(difference.missing, test.missing);
    EXPECT_EQ(difference.repeated, test.repeated);
    EXPECT_EQ(difference.out_of_order, test.out_of_order);
  }
}

}  // namespace
}  // namespace penstock::test
