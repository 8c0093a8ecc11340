// What is known of a graph before it runs.
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <penstock/plan.h>
#include <penstock/sources.h>

#include "pipeline/engine/run/epoch_trees.h"
#include "pipeline/engine/run/run.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/noisy.h"
#include "tests/support/numbers.h"

namespace penstock {
namespace {

using test::numbers;
using test::stream;

constexpr std::uint64_t kLabels = 4;  // i64 has 8 bytes, slots are aligned to 64

Dataset same(const Dataset& dataset, bool ordered = true) {
  return dataset.map([](Element e) { return e; }, {.ordered = ordered});
}

TEST(Plan, SaysHowEachStageIsCarriedOut) {
  const auto keep = [](const Element&) { return true; };
  struct Case {
    Dataset dataset;
    Execution execution;
    Resume resume;
  };
  const std::vector<Case> cases{
      {numbers(9), Execution::references, Resume::position},
      {stream({1, 2}), Execution::stream, Resume::work},
      {numbers(9).shuffle(), Execution::positions, Resume::position},
      {numbers(9).shuffle({.buffer = 3}), Execution::order, Resume::order},
      {stream({1, 2}).shuffle({.buffer = 3}), Execution::order, Resume::work},
      {numbers(9).unique(), Execution::values, Resume::work},
      {numbers(9).filter(keep), Execution::verdicts, Resume::position},
      {numbers(9).take_while(keep), Execution::verdicts, Resume::position},
      {same(numbers(9)), Execution::fused, Resume::position},
      {same(numbers(9), false), Execution::unordered, Resume::position},
      {numbers(9).window(2), Execution::held, Resume::work},
      {numbers(9).ragged_batch(2), Execution::in_place, Resume::position},
      {numbers(9).padded_batch(2), Execution::gathered, Resume::position},
      {numbers(9).batch(2).batch(2), Execution::gathered, Resume::position},
      {numbers(9).batch(2), Execution::in_place, Resume::position},
  };
  for (const Case& test : cases) {
    const PlannedStage stage = compile(test.dataset).stages().back();
    EXPECT_EQ(stage.execution, test.execution) << stage.label;
    EXPECT_EQ(stage.resume, test.resume) << stage.label;
  }
}

std::string text_of(const PlannedSegment& segment) {
  const auto joined = [](const std::vector<std::string>& labels) {
    std::string text;
    for (const std::string& label : labels) text += " " + label;
    return text;
  };
  constexpr const char* kGives[] = {"values", "unordered", "batches"};
  std::string text = joined(segment.order) + ":" + joined(segment.program) + " -> " +
                     kGives[static_cast<std::size_t>(segment.gives)] + " for " + segment.owner;
  for (const std::size_t number : segment.in_front) text += " <" + std::to_string(number);
  return text;
}

TEST(Plan, HasTheSegmentsThatARunOpens) {
  const auto keep = [](const Element&) { return true; };
  const auto bad = [](const Dataset& dataset) { return same(dataset); };  // may fail
  const std::vector<std::pair<Dataset, std::vector<std::string>>> cases{
      {numbers(9), {": numbers[0] -> values for numbers[0]"}},
      {same(numbers(9).shuffle()).batch(2).prefetch(),
       {" shuffle[1]: numbers[0] map[2] batch[3] -> batches for batch[3]"}},
      {numbers(9).filter(keep).batch(2),
       {": numbers[0] -> values for filter[1]", " filter[1]: batch[2] -> batches for batch[2] <0"}},
      {same(numbers(9), false).take(4),
       {": numbers[0] map[1] -> unordered for map[1]", " take[2]: -> values for take[2] <0"}},
      {numbers(9).batch(2).filter(keep),
       {": numbers[0] batch[1] -> batches for batch[1]", ": -> values for filter[2] <0",
        " filter[2]: -> values for filter[2] <1"}},
      {bad(numbers(9)).window(2).batch(2), {}},
      {bad(numbers(4)).concatenate(numbers(9).filter(keep)).repeat(2).batch(3), {}},
      {bad(numbers(9)).unique().batch(2), {}},
      {bad(numbers(9)).batch(4).unbatch().padded_batch(2), {}},
      {numbers(9).filter(keep).repeat(2).cache().shuffle({.buffer = 3}), {}},
      {bad(numbers(9)).take(3).concatenate(numbers(2)).batch(2), {}},
      {same(numbers(9)).batch(3).rebatch(2), {}},
  };
  for (const auto& [dataset, expected] : cases) {
    const Plan plan = compile(dataset);
    std::vector<std::string> texts;
    for (const PlannedSegment& segment : plan.segments()) texts.push_back(text_of(segment));
    if (!expected.empty()) {
      EXPECT_EQ(texts, expected) << plan.to_string();
    }
    penstock::Run run(plan, {});
    const SegmentPtr top = open_graph(run.state().plan(), run.stages(), 0, true);
    EXPECT_EQ(run.segments().size(), plan.segments().size())
        << plan.to_string() << testing::PrintToString(texts);
  }
}

TEST(Plan, SharesOfTheBudget) {
  const Plan plan = compile(range(8).batch(4), {.threads = 2, .memory_bytes = 64 << 20});
  EXPECT_EQ(plan.shares().slots, 56U << 20);
  EXPECT_EQ(plan.shares().kept, 48U << 20);
  EXPECT_EQ(plan.shares().group, 4U << 20);
  EXPECT_NE(plan.to_string().find("shares: at most 56.00 MiB for batches made ahead, 48.00 MiB for "
                                  "what a stage keeps, 4.00 MiB for a group\n"),
            std::string::npos)
      << plan.to_string();
}

TEST(Plan, FindsTheBatchesThatComeOut) {
  struct Case {
    Dataset dataset;
    std::int64_t rows;  // 0: none
    bool drop_remainder;
    bool in_place;
  };
  const std::vector<Case> cases{
      {numbers(9), 0, false, false},
      {numbers(9).batch(4), 4, false, true},
      {numbers(9).batch(4, {.drop_remainder = true}).prefetch(), 4, true, true},
      {numbers(9).padded_batch(3), 3, false, false},
      {numbers(9).batch(4).unbatch(), 0, false, false},
      {same(numbers(9).batch(4)), 0, false, false},
  };
  for (const Case& test : cases) {
    const Plan plan = compile(test.dataset);
    ASSERT_EQ(plan.batches().has_value(), test.rows > 0) << plan.to_string();
    if (test.rows == 0) continue;
    EXPECT_EQ(plan.batches()->rows, test.rows);
    EXPECT_EQ(plan.batches()->drop_remainder, test.drop_remainder);
    EXPECT_EQ(plan.batches()->in_place, test.in_place);
    EXPECT_EQ(plan.elements().spec(), numbers(9).spec());
  }
}

TEST(Plan, KnowsTheRowsOfBatchesBehindOtherStages) {
  using enum BatchRows::Fewer;
  const Dataset batches = numbers(9).batch(4);
  const Dataset full = numbers(9).batch(4, {.drop_remainder = true});
  struct Case {
    Dataset dataset;
    std::optional<BatchRows> rows;
    std::string stage;
  };
  const std::vector<std::int64_t> sizes{2, 5};
  const BatchRows plain{.full = 4, .most = 4};
  for (const Case& test : std::vector<Case>{
           {numbers(9), std::nullopt, "numbers[0]"},
           {batches.prefetch(), plain, "batch[1]"},
           {same(batches).take(2).skip(1), plain, "batch[1]"},
           {full.repeat(2).shuffle({.buffer = 2}), BatchRows{4, 4, none}, "batch[1]"},
           {same(batches.repeat(2)), BatchRows{4, 4, any}, "repeat[2]"},
           {batches.cache(), BatchRows{4, 4, last, true, false, true}, "cache[2]"},
           {batches.pad_batches(), BatchRows{4, 4, none, true, true}, "pad_batches[2]"},
           {batches.cache().pad_batches(), BatchRows{4, 4, none, true, true, true},
            "pad_batches[3]"},
           {batches.rebatch(3), BatchRows{3, 3}, "rebatch[2]"},
           {batches.rebatch(sizes), BatchRows{0, 5, any}, "rebatch[2]"},
           {batches.concatenate(full), BatchRows{4, 4, any}, "concatenate[4]"},
           {batches.concatenate(numbers(9).batch(5)), BatchRows{0, 5, any}, "concatenate[4]"},
           {batches.unbatch().take(3), std::nullopt, "unbatch[2]"},
       }) {
    const Plan plan = compile(test.dataset);
    EXPECT_EQ(plan.rows(), test.rows) << plan.to_string();
    EXPECT_EQ(plan.rows_stage().label, test.stage) << plan.to_string();
  }
  EXPECT_TRUE(compile(same(full)).drops_remainder());
  EXPECT_EQ(compile(same(full)).shard(2, 1).cardinality(), 1);
  test::expect_error(ErrorCode::invalid_argument, "skip[2]",
                     [&] { static_cast<void>(compile(batches.skip(1)).shard(2, 0)); });
}

TEST(Plan, MakesTheSameBatchesOfOtherElements) {
  const Plan plan = compile(numbers(9).batch(4, {.drop_remainder = true}).prefetch());
  const std::optional<Dataset> shard = plan.batches_of(plan.elements().shard(2, 1));
  ASSERT_TRUE(shard);
  EXPECT_EQ(compile(*shard).batches()->rows, 4);
  EXPECT_FALSE(compile(*shard).batches()->drop_remainder);
  EXPECT_EQ(shard->cardinality(), 1);
  const Plan padded = compile(numbers(9).padded_batch(4));
  EXPECT_EQ(padded.batches_of(padded.elements().shard(2, 1))->cardinality(), 1);
}

TEST(Plan, CountsASlotForEachPlaceOfABatchStage) {
  const Dataset batches = numbers(9).batch(kLabels);
  const std::uint64_t one = compile(batches).least_memory();
  EXPECT_GE(one, kLabels * sizeof(std::int64_t));
  EXPECT_EQ(compile(batches).batches()->slot_bytes, one);
  const Plan twice = compile(batches.concatenate(batches), {.memory_bytes = one});
  EXPECT_EQ(twice.least_memory(), 2 * one);
  EXPECT_EQ(twice.stages()[1].uses, 2U);
  EXPECT_EQ(twice.stages().size(), 3U);
  test::expect_error(ErrorCode::resource_exhausted, "2 times " + std::to_string(one),
                     [&] { twice.check_memory(); });
  compile(batches.concatenate(batches), {.memory_bytes = 2 * one}).check_memory();
}

TEST(Plan, CountsTheElementsOfAnEpoch) {
  const auto keep = [](const Element&) { return true; };
  struct Case {
    Dataset dataset;
    std::int64_t elements;
  };
  for (const Case& test : std::vector<Case>{
           {numbers(9), 9},
           {numbers(9).batch(4), 9},
           {numbers(9).batch(4, {.drop_remainder = true}), 8},
           {same(numbers(9).batch(4).pad_batches()).prefetch(), 9},
           {numbers(9).shard(2, 0).batch(4), 5},
           {numbers(9).batch(4).take(1), -1},
           {numbers(9).filter(keep), -1},
           {numbers(9).repeat(), -1},
       }) {
    EXPECT_EQ(compile(test.dataset).expected_elements(), test.elements) << test.dataset.explain();
  }
}

TEST(Plan, SaysWhatCanBeSavedAndOnHowManyShardsItGoesOn) {
  const Plan plain = compile(numbers(9).shuffle().shard(2, 0).batch(2));
  EXPECT_EQ(plain.unsavable(), "");
  EXPECT_EQ(plain.inelastic(), "");
  EXPECT_TRUE(plain.sharded());
  EXPECT_TRUE(plain.ordered());
  const Plan behind = compile(same(numbers(9), false).take(3));
  EXPECT_FALSE(behind.ordered());
  EXPECT_THAT(behind.unsavable(), testing::HasSubstr("take follows an unordered map"));
  EXPECT_THAT(compile(numbers(9).shard(2, 0).shuffle()).inelastic(),
              testing::HasSubstr("shuffle follows shard"));
}

TEST(Plan, IsSummedUpInALineForEachStage) {
  const Dataset data = zip({numbers({5, 6}), numbers({1, 2, 3}).enumerate().keep({"index"})})
                           .shuffle({.seed = 3})
                           .batch(2)
                           .repeat();
  EXPECT_EQ(compile(data, {.memory_bytes = 1 << 20}).summary(),
            "  numbers(value=5, value=6)             {x: i64 []}  2 elements\n"
            "    numbers(value=1, value=2, value=3)  {x: i64 []}  3 elements\n"
            "      count(start=0)                    {index: i64 []}  infinite elements\n"
            "    enumerate                           {x: i64 [], index: i64 []}\n"
            "    keep(components=index)              {index: i64 []}\n"
            "  zip                                   {x: i64 [], index: i64 []}\n"
            "  shuffle(seed=3, reshuffle=true)\n"
            "  batch(size=2, drop_remainder=false)   {x: i64 [?], index: i64 [?]}  1 batch\n"
            "  repeat(count=-1)                      infinite elements\n"
            "memory: at least 0.12 KiB for slots, of a budget of 1.00 MiB\n"
            "stopped and restored: EXACT; costs position\n");
}

TEST(Plan, IsSummedUpWithoutChecksumsAndEmptyOptions) {
  const test::TempFolder folder;
  folder.write("a/1.jpg", "photo");
  const Plan plan = compile(penstock::images(folder.path()));
  EXPECT_THAT(plan.to_string(), testing::HasSubstr("checksum="));
  EXPECT_THAT(plan.summary(), testing::StartsWith("  images(files=1)  {"));
}

/// What Graphviz would be told by `text`: the nodes' labels, and edges. Fails for anything else.
struct Graph {
  std::map<std::string, std::string> labels;
  std::vector<std::pair<std::string, std::string>> edges;
};

Graph parse_dot(const std::string& text) {
  Graph graph;
  std::istringstream in(text);
  std::string line;
  EXPECT_TRUE(std::getline(in, line));
  EXPECT_EQ(line, "digraph pipeline {");
  EXPECT_TRUE(std::getline(in, line));
  EXPECT_EQ(line, "  node [shape=box];");
  const std::regex node(R"re(  (s\d+) \[label="((?:[^"\\]|\\.)*)"\];)re");
  const std::regex edge(R"(  (s\d+) -> (s\d+);)");
  std::smatch match;
  while (std::getline(in, line) && line != "}") {
    if (std::regex_match(line, match, node)) {
      EXPECT_TRUE(graph.labels.emplace(match[1], match[2]).second) << line;
    } else if (std::regex_match(line, match, edge)) {
      EXPECT_TRUE(graph.labels.contains(match[1]) && graph.labels.contains(match[2])) << line;
      graph.edges.emplace_back(match[1], match[2]);
    } else {
      ADD_FAILURE() << "no line of Graphviz: " << line;
    }
  }
  EXPECT_EQ(line, "}");
  EXPECT_FALSE(std::getline(in, line));
  return graph;
}

TEST(Plan, IsAGraphForGraphviz) {
  const Dataset source = numbers(3);
  const auto same = [](Element e) { return e; };
  const Dataset renamed = source.map(
      [](Element e) {
        return Element({{"y", e[0]}});
      },
      {.name = "quote \" slash \\ line\nend", .output = Spec({{"y", DType::i64, {}}})});
  const Graph graph = parse_dot(compile(zip({source.map(same), renamed})).to_dot());
  ASSERT_EQ(graph.labels.size(), 4U);
  using Edge = std::pair<std::string, std::string>;
  EXPECT_THAT(graph.edges, testing::UnorderedElementsAre(Edge{"s0", "s1"}, Edge{"s0", "s2"},
                                                         Edge{"s1", "s3"}, Edge{"s2", "s3"}));
  EXPECT_THAT(graph.labels.at("s2"), testing::HasSubstr(R"(quote \" slash \\ line end)"));
  EXPECT_THAT(graph.labels.at("s0"), testing::HasSubstr(R"({x: i64 []}\n3 elements)"));
}

}  // namespace
}  // namespace penstock
