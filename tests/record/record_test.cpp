// What graphs of every kind give, compared with what they gave when the record was written: the
// same elements, texts, errors and counts for any number of threads and any memory.
#include "tests/record/record.h"

#include <cstdlib>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/simd.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

bool writing() {
  const char* value = std::getenv("PENSTOCK_WRITE_RECORD");
  return value != nullptr && std::string(value) == "1";
}

const Record& golden() {
  static const Record record = read_record(record_path());
  return record;
}

/// The line that names a state's format; empty for what has none.
std::string version_of(const std::string& state) {
  return state.substr(0, state.find('\n'));
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const bool ample : {true, false}) {
    for (const int threads : {1, 2, 8}) all.push_back({threads, ample});
  }
  return all;
}

std::string text_of(const Setting& setting) {
  return std::to_string(setting.threads) + " threads, " + (setting.ample ? "ample" : "least") +
         " memory";
}

class Records : public testing::TestWithParam<Recorded> {
 protected:
  static void TearDownTestSuite() {
    if (!writing()) return;
    std::ofstream(record_path()) << text_of(written_);
  }

  const TimeLimit limit_{500};
  static inline Record written_;
};

TEST_P(Records, AreWhatTheyWere) {
  const Recorded& graph = GetParam();
  if (writing()) {
    const Observed now = graph.observe(settings().front());
    // States that are there stay, so that they are those of the build that wrote them first.
    const auto was = golden().find(graph.name);
    written_[graph.name] = {now.about, now.run,
                            was != golden().end() ? was->second.states : now.states};
    return;
  }
  ASSERT_TRUE(golden().contains(graph.name))
      << "no record of " << graph.name << ": write it with PENSTOCK_WRITE_RECORD=1";
  const Entry& was = golden().at(graph.name);
  for (const Setting& setting : settings()) {
    const Observed now = graph.observe(setting);
    const std::string other = difference(lines_of(was), lines_of(Entry{now.about, now.run, {}}));
    ASSERT_TRUE(other.empty()) << graph.name << ", " << text_of(setting) << ":\n" << other;
    ASSERT_TRUE(now.resumed.empty()) << graph.name << ", " << text_of(setting) << ":\n"
                                     << difference({}, now.resumed);
    for (const auto& [position, state] : now.states)
      EXPECT_LE(state.size(), 4096U) << graph.name << " at " << position;
  }
}

/// States of the record, which an older build may have saved: they continue, or are refused because
/// their format is another.
TEST_P(Records, GoOnFromOldStates) {
  const Recorded& graph = GetParam();
  if (writing()) GTEST_SKIP() << "it is being written";
  ASSERT_TRUE(golden().contains(graph.name));
  const Entry& was = golden().at(graph.name);
  const States now = graph.observe({1, true}).states;
  ASSERT_EQ(now.empty(), was.states.empty()) << graph.name;
  if (now.empty()) return;  // it refuses to save, or is not gone on with
  const std::string version = version_of(now.begin()->second);
  for (const auto& [position, state] : was.states) {
    for (const Setting& setting : {Setting{2, true}, Setting{8, false}}) {
      if (version_of(state) != version) {
        EXPECT_THROW((void)graph.resume(setting, position, state), Error) << graph.name;
        continue;
      }
      const std::vector<std::string> rest = graph.resume(setting, position, state);
      EXPECT_TRUE(is_rest(rest, was.run, position, graph.unordered))
          << graph.name << " from the state at " << position << ", " << text_of(setting) << ":\n"
          << difference(std::vector<std::string>(
                            was.run.begin() + static_cast<std::ptrdiff_t>(position), was.run.end()),
                        rest);
    }
  }
}

class Images : public testing::TestWithParam<RecordedGraph> {};

/// No result depends on the processor.
TEST_P(Images, AreTheSameOnEveryTarget) {
  const RecordedGraph& graph = GetParam();
  if (writing()) GTEST_SKIP() << "it is being written";
  ASSERT_TRUE(golden().contains(graph.name));
  const TimeLimit limit{500};
  for_each_target([&](const std::string& target) {
    if (graph.needs_vectors && (target == "SCALAR" || target == "EMU128")) return;
    const Observed now = observe(graph, {2, true});
    const std::string other = difference(golden().at(graph.name).run, now.run);
    EXPECT_TRUE(other.empty()) << graph.name << " on " << target << ":\n" << other;
  });
}

INSTANTIATE_TEST_SUITE_P(Graphs, Images, testing::ValuesIn(image_graphs()),
                         [](const auto& graph) { return graph.param.name; });
INSTANTIATE_TEST_SUITE_P(Graphs, Records, testing::ValuesIn(recorded()),
                         [](const auto& graph) { return graph.param.name; });

TEST(Record, IsOfTheseGraphsAndNoOthers) {
  if (writing()) GTEST_SKIP() << "it is being written";
  std::set<std::string> graphs;
  for (const Recorded& graph : recorded())
    EXPECT_TRUE(graphs.insert(graph.name).second) << graph.name << " stands twice";
  for (const auto& [name, entry] : golden()) EXPECT_TRUE(graphs.contains(name)) << name;
  EXPECT_EQ(golden().size(), graphs.size());
  EXPECT_GE(graphs.size(), 60U);
}

TEST(Record, ShowsWhatDiffers) {
  EXPECT_EQ(difference({"a", "b", "c"}, {"a", "b", "c"}), "");
  EXPECT_EQ(difference({"a", "b", "c"}, {"a", "x", "c", "d"}), "- b\n+ x\n+ d\n");
  EXPECT_FALSE(is_rest({"b"}, {"a", "b", "c"}, 1, false));
  EXPECT_FALSE(is_rest({"c", "c"}, {"a", "b", "c"}, 1, true));
  EXPECT_TRUE(is_rest({"c", "a"}, {"a", "b", "c"}, 1, true));
}

}  // namespace
}  // namespace penstock::test
