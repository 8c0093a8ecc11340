#include "tools/penstock/report/report.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tools/made_reports.h"

namespace penstock::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Report, CountsStallsAfterTheFirstBatch) {
  Report report = run({}, 0);
  report.wall_s = 10.1;
  report.first_batch_s = 0.1;
  report.wait_s = 1.1;
  EXPECT_NEAR(report.stall_share(), 0.1, 1e-9);
  report.wall_s = 0;
  EXPECT_EQ(report.stall_share(), 0);
}

TEST(ReportJson, HasEveryFieldThatIsPromised) {
  Report report = run({stage("tar[0]", 1, 2, "output")}, 5);
  report.stats.errors.count = 2;
  report.stats.errors.first.emplace_back(ErrorCode::data_loss, "cut short",
                                         Provenance{"a\xff.tar", 512, 3, "map[1] decode_image"});
  report.stats.errors.first.emplace_back(ErrorCode::user, "no address");
  const auto json = nlohmann::json::parse(report_json(report, "x"));
  EXPECT_DOUBLE_EQ(json["elements_per_second"], 100);
  EXPECT_DOUBLE_EQ(json["cpu_seconds_per_1000"], 5);
  EXPECT_DOUBLE_EQ(json["first_batch_ms"], 100);
  EXPECT_EQ(json["elements"], 1000);
  EXPECT_EQ(json["batches"], 10);
  EXPECT_EQ(json["errors"]["count"], 2);
  const auto& first = json["errors"]["first"];
  EXPECT_EQ(first[0]["path"], "a\uFFFD.tar") << "JSON is UTF-8, names need not be";
  EXPECT_EQ(first[0]["offset"], 512);
  EXPECT_EQ(first[0]["index"], 3);
  EXPECT_EQ(first[0]["stage"], "map[1] decode_image");
  EXPECT_EQ(first[0]["cause"], "cut short");
  EXPECT_TRUE(first[1]["offset"].is_null());
  const auto& only = json["stages"][0];
  EXPECT_EQ(only["name"], "tar[0]");
  EXPECT_EQ(only["items"], 1000);
  EXPECT_EQ(only["bytes"], 4096);
  EXPECT_EQ(only["busy_s"], 1);
  EXPECT_EQ(only["wait_s"], 2);
  EXPECT_EQ(only["waits_on"], "output");
  EXPECT_EQ(json["memory"]["budget_bytes"], 96 << 20);
  EXPECT_EQ(json["memory"]["peak_bytes"], 73 << 20);
  EXPECT_TRUE(json["memory"].contains("rss_peak_bytes"));
  EXPECT_EQ(json["threads"], 2);
  EXPECT_TRUE(json["digest"].is_null());
  EXPECT_TRUE(json["slow_shard"].is_null());
  EXPECT_TRUE(json.contains("jpeg_backend"));
  EXPECT_TRUE(json["verdict"]["text"].is_string());
  for (const char* field : {"cause", "remedy", "gain_s", "rate_then", "rate_half"})
    EXPECT_TRUE(json["verdict"].contains(field)) << field;
  report.digest = 0xabc;
  EXPECT_EQ(nlohmann::json::parse(report_json(report, "x"))["digest"], "0000000000000abc");
}

Report with_timeline() {
  Report report = run({stage("tar[0]", 1), stage("map[1] <decode>", 18)}, 19);
  for (int i = 1; i <= 5; ++i)
    report.timeline.push_back(
        {i * 0.1, i * 100.0, static_cast<std::uint64_t>(i) << 20, {0.5, 1.5}, {}});
  return report;
}

TEST(ReportTrace, CountsOverTime) {
  const auto trace = nlohmann::json::parse(report_trace(with_timeline()));
  std::map<std::string, int> counters;
  double last = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters[event["name"]];
    EXPECT_GE(event["ts"], last);
    last = event["ts"];
    if (event["name"] != "threads busy") continue;
    EXPECT_EQ(event["args"]["map[1] <decode>"], 1.5);
  }
  EXPECT_EQ(counters,
            (std::map<std::string, int>{{"elements/s", 5}, {"memory", 5}, {"threads busy", 5}}));
  EXPECT_DOUBLE_EQ(last, 5e5);
}

TEST(ReportHtml, ShowsAllAndEscapes) {
  Report report = with_timeline();
  report.stats.errors.count = 1;
  report.stats.errors.first.emplace_back(ErrorCode::data_loss, "<script>alert(1)</script>");
  const std::string page = report_html(report, {"penstock profile", "tar a&b.tar", {}, {}});
  EXPECT_THAT(page, AllOf(HasSubstr("100 elements/s"), HasSubstr("tar a&amp;b.tar"),
                          HasSubstr("map[1] &lt;decode&gt;"), HasSubstr("limits the run"),
                          HasSubstr("&lt;script&gt;"), HasSubstr("<polyline"),
                          testing::Not(HasSubstr("<script"))));
  EXPECT_THAT(page, testing::Not(HasSubstr("http"))) << "needs nothing from elsewhere";
  report.timeline.clear();
  EXPECT_THAT(report_html(report, {"penstock profile", "x", {}, {}}),
              testing::Not(HasSubstr("<polyline")));
}

TEST(ReportHtml, HasTheVerdictFirstNumbersOnItsAxesAndFoldsWhatWasTuned) {
  Report report = with_timeline();
  report.stats.decisions.push_back({0.4, "threads", 2, 4, "<they> waited"});
  const std::string page = report_html(report, {"penstock profile", "x", {}, {}});
  EXPECT_LT(page.find("limits the run"), page.find("100 elements/s"));
  EXPECT_THAT(page, AllOf(HasSubstr(">500 ms<"), HasSubstr(">500/s<"), HasSubstr(">2.0 MiB<"),
                          HasSubstr("<details><summary>Tuned 1 time</summary>"),
                          HasSubstr("&lt;they&gt; waited")));
}

TEST(ReportHtml, HasARowForEachTower) {
  Report report = fed("copy", 4);
  for (int i = 1; i <= 5; ++i)
    report.timeline.push_back({i * 0.1, 100, 1 << 20, {0.5, 1.5}, {0.5, 0.25}});
  const std::string page = report_html(report, {"penstock profile", "x", {}, {}});
  EXPECT_THAT(page, AllOf(HasSubstr("Tower 1 host:1 stalled"), HasSubstr("waited for copy 4.90 s"),
                          HasSubstr("sooner without copy 4.00 s"), HasSubstr("Copies to host:0")));
}

TEST(ReportText, FitsNarrowTerminals) {
  Report report = run({stage("images[0]", 1), stage("map[1] decode_image and much more", 18)}, 19);
  report.stats.errors.count = 12;
  for (int i = 0; i < 12; ++i)
    report.stats.errors.first.emplace_back(ErrorCode::data_loss, "cut \x1b[31m short");
  const std::string text = report_text(report, false, 100);
  EXPECT_THAT(text,
              AllOf(HasSubstr("1,000 elements in 10 batches, 1 epoch, 10.0 s: 100 elements/s"),
                    HasSubstr("12 bad elements"), HasSubstr("and 2 more"),
                    HasSubstr("cut \\x1b[31m short")));
  EXPECT_THAT(report_text(report, false, 20), HasSubstr("decode_image"));
}

TEST(ReportText, NamesTheShareOfPadding) {
  Report report = run({stage("tar[0]", 1), stage("bucket_by_length[1]", 2)}, 3);
  report.stats.stages[1].padding_bytes = report.stats.stages[1].bytes / 4;
  const std::string text = report_text(report, false, 100);
  EXPECT_THAT(text, AllOf(HasSubstr("bucket_by_length[1]: 25% of its bytes are padding\n"),
                          testing::Not(HasSubstr("tar[0]:"))));
  EXPECT_THAT(report_html(report, {"penstock profile", "x", {}, {}}),
              HasSubstr(">bucket_by_length[1]: 25% of its bytes are padding<"));
}

TEST(ReportText, BeginsWithTheVerdictAndFoldsWhatWasTuned) {
  Report report = run({stage("tar[0]", 1), stage("map[1] decode_image", 18)}, 19);
  for (std::uint64_t i = 0; i < 5; ++i)
    report.stats.decisions.push_back({0.1 * static_cast<double>(i), "slots", i + 1, i + 2, "why"});
  report.stats.decisions.push_back({1, "threads", 2, 4, "why"});
  const std::string text = report_text(report, false, 100);
  EXPECT_TRUE(text.starts_with("map[1] decode_image limits the run")) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("tuned 6 times: slots 1 to 6, threads 2 to 4\n"),
                          testing::Not(HasSubstr("why"))));
}

}  // namespace
}  // namespace penstock::tool
