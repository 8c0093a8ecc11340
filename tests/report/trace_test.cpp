#include "report/trace.h"

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/penstock.h>

#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using testing::IsSupersetOf;
using testing::StartsWith;
using Json = nlohmann::json;

/// Fails unless the trace is one that Perfetto shows as it is: durations and times are not
/// negative, tracks have names, and the spans of a track nest.
void check(const Json& trace) {
  std::set<int> named;
  std::map<int, std::vector<std::pair<double, double>>> open;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") named.insert(event["tid"].get<int>());
    if (event["ph"] != "X") continue;
    const int track = event["tid"];
    EXPECT_TRUE(named.contains(track)) << event;
    const double begin = event["ts"];
    const double end = begin + event["dur"].get<double>();
    EXPECT_GE(begin, 0) << event;
    EXPECT_GE(end, begin) << event;
    auto& around = open[track];
    constexpr double kRounding = 1e-3;  // microseconds
    while (!around.empty() && around.back().second <= begin + kRounding) around.pop_back();
    if (!around.empty()) {
      EXPECT_GE(begin, around.back().first - kRounding) << event;
      EXPECT_LE(end, around.back().second + kRounding) << event;
    }
    around.emplace_back(begin, end);
  }
}

std::map<std::string, int> categories(const Json& trace) {
  std::map<std::string, int> counts;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X") ++counts[event["cat"]];
  return counts;
}

Spans::Span span(std::uint64_t sample, std::int64_t begin_ns, std::int64_t end_ns) {
  return {Spans::Kind::step, 0, 0, sample, begin_ns, end_ns, 1};
}

TEST(Trace, PutsSpansThatOverlapBesideEachOther) {
  const Spans::Trace trace{{span(0, 30, 50), span(1, 10, 40), span(2, 15, 20), span(3, 18, 60)},
                           {"step"},
                           {"tower 0"},
                           10,
                           1};
  const Json json = Json::parse(trace_json(trace, {}));
  check(json);
  EXPECT_EQ(categories(json)["step"], 4);
}

TEST(Trace, EndsWhatIsInAGroupWithIt) {
  std::vector<Spans::Span> spans{span(0, 10, 40), span(1, 15, 20), span(2, 18, 60),
                                 span(3, 30, 50)};
  for (Spans::Span& each : spans) each.kind = Spans::Kind::op;
  check(Json::parse(trace_json({spans, {"op"}, {"thread 7"}, 10, 1}, {})));
}

TEST(Trace, CountsBesideSpans) {
  const Json json =
      Json::parse(trace_json({{}, {}, {}, 0, 1}, {{"threads busy", 0.5, {{"map \xff", 1.5}}}}));
  EXPECT_EQ(json["traceEvents"].back()["ts"], 5e5);
  EXPECT_EQ(json["traceEvents"].back()["args"]["map \\xff"], 1.5);
}

TEST(Spans, NoteNothingBeforeTheyAreBegun) {
  Spans spans;
  EXPECT_FALSE(spans.on());
  spans.note(Spans::Kind::op, "x", 1, 2, 1);
  EXPECT_TRUE(spans.taken().spans.empty());
}

TEST(Spans, KeepSoManyEvenlyOverTheRun) {
  constexpr std::size_t kMost = 64;
  Spans spans;
  spans.begin(kMost);
  for (std::uint64_t batch = 0; batch < 1000; ++batch) {
    spans.note_on("copies", Spans::Kind::copy, "copy", batch, 10 * static_cast<std::int64_t>(batch),
                  10 * static_cast<std::int64_t>(batch) + 3, 1);
    spans.note_on("steps", Spans::Kind::step, "step", batch,
                  10 * static_cast<std::int64_t>(batch) + 3,
                  10 * static_cast<std::int64_t>(batch) + 9, 1);
  }
  const Spans::Trace trace = spans.taken();
  EXPECT_LE(trace.spans.size(), kMost);
  EXPECT_GT(trace.spans.size(), kMost / 3);
  EXPECT_EQ(trace.one_of, 32);
  std::map<std::uint64_t, int> of_batch;
  for (const Spans::Span& each : trace.spans) ++of_batch[each.sample];
  for (const auto& [batch, count] : of_batch) {
    EXPECT_EQ(batch % trace.one_of, 0);
    EXPECT_EQ(count, 2) << "a batch is there as a whole";
  }
}

TEST(Trace, HasGroupsReadsOpsCopiesAndSteps) {
  const test::TimeLimit limit(60);
  begin_trace();
  const Dataset train = synthetic({.count = 200, .image_height = 32, .image_width = 32})
                            .map(decode_image("image").resize(16, 16))
                            .batch(8);
  {
    Feed feed(train, devices("host:0,host:1"), {.max_bytes = 4096});
    std::vector<std::jthread> towers;
    for (int t = 0; t < 2; ++t)
      towers.emplace_back([&feed, t] {
        const Stream stream(feed.device(t).shared_from_this(), "tower");
        while (std::optional<StagedBatch> batch = feed.next(t)) {
          batch->wait(stream);
          stream.view().busy(1'000'000);
          batch->release(stream);
        }
        stream.view().synchronize();
      });
  }
  const Json json = Json::parse(trace_so_far());
  check(json);
  std::map<std::string, int> counts = categories(json);
  for (const char* category : {"group", "read", "op", "copy", "step"})
    EXPECT_GT(counts[category], 0) << category;
  EXPECT_GE(counts["step"], 20);
  EXPECT_GE(counts["op"], counts["group"] / 2);
  std::set<std::string> tracks;
  for (const Json& event : json["traceEvents"])
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
  EXPECT_THAT(tracks, IsSupersetOf({"tower 0 host:0: steps", "tower 0 host:0: copies",
                                    "tower 1 host:1: steps", "tower 1 host:1: copies"}));
}

}  // namespace
}  // namespace penstock
