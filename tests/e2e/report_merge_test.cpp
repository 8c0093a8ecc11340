// Four processes, one of which has a slow input, and `penstock report merge` over their reports.
#include <memory>

#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace penstock::test::report_merge_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Flags = std::vector<std::string>;
using nlohmann::json;

constexpr int kRanks = 4;

/// Returns the reports of four ranks whose steps take 5 ms. `planted` makes each element of one
/// rank take 20 ms, and so each batch 80 ms.
Flags reports_of(const TempFolder& folder, int slow, const std::string& planted) {
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string input = "count=1000,bytes=64" + (rank == slow ? "," + planted : "");
    ranks.push_back(std::make_unique<Program>(
        Flags{"profile", "--synthetic", input, "--io-threads", "1", "--threads", "1", "--batch",
              "4", "--device", "host:0", "--step-ms", "5", "--batches", "20", "--quiet"},
        "",
        Flags{"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(kRanks),
              "PENSTOCK_REPORT=" + (folder / "%r.json")}));
  }
  Flags paths;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Outcome outcome = ranks[static_cast<std::size_t>(rank)]->wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    paths.push_back(folder / (std::to_string(rank) + ".json"));
  }
  return paths;
}

Outcome merge(const Flags& paths, const Flags& more = {}) {
  Flags flags{"report", "merge"};
  flags.insert(flags.end(), paths.begin(), paths.end());
  flags.insert(flags.end(), more.begin(), more.end());
  return run_program(flags);
}

TEST(ReportMerge, NamesTheRankWithTheSlowSource) {
  const TempFolder folder;
  const Flags reports = reports_of(folder, 2, "read_us=20000");
  const Outcome outcome = merge(reports, {"--json", folder / "merged.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(StartsWith("Rank 2 on "), HasSubstr(" holds up the others: it "),
                                 HasSubstr("of the time for synthetic[0]")));
  const json merged = json::parse(read_file(folder / "merged.json"));
  EXPECT_EQ(merged["verdict"]["ranks"], json({2}));
  EXPECT_EQ(merged["verdict"]["cause"], "source");
  EXPECT_EQ(merged["verdict"]["stage"], "synthetic[0]");
  EXPECT_THAT(outcome.out, StartsWith(merged["verdict"]["text"].get<std::string>() + "\n"));
  EXPECT_EQ(merged["ranks"].size(), 4U);

  const Outcome fewer = merge({reports[3], reports[0], reports[2]}, {"--json", "-"});
  EXPECT_EQ(fewer.err, "penstock: warning: the report of rank 1 is missing\n");
  EXPECT_EQ(fewer.json()["verdict"]["ranks"], json({2}));
  EXPECT_EQ(fewer.json()["missing"], json({1}));
}

TEST(ReportMerge, NamesTheRankWithTheSlowMap) {
  const TempFolder folder;
  const Outcome outcome = merge(reports_of(folder, 1, "cost_us=20000"), {"--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json verdict = outcome.json()["verdict"];
  EXPECT_EQ(verdict["ranks"], json({1})) << verdict;
  EXPECT_THAT(verdict["stage"].get<std::string>(), HasSubstr("synthetic_cost"));
}

TEST(ReportMerge, RefusesFilesByName) {
  const TempFolder folder;
  const std::string text = folder.write("report.txt", "map[1] limits the run");
  const struct {
    Flags paths;
    int code;
    std::string says;
  } kCases[] = {{{text, text}, 2, "not a JSON report written by PENSTOCK_REPORT (" + text},
                {{}, 2, "REPORT"},
                {{folder / "none"}, 1, folder / "none"}};
  for (const auto& c : kCases) {
    const Outcome outcome = merge(c.paths);
    EXPECT_EQ(outcome.code, c.code) << c.says;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("penstock: "), HasSubstr(c.says)));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(ReportMerge, IsFoundByItsName) {
  EXPECT_THAT(run_program({"help", "report", "merge"}).out,
              HasSubstr("Usage: penstock report merge"));
  EXPECT_THAT(run_program({"report", "--help"}).out, HasSubstr("\n  merge "));
  const Outcome none = run_program({"report"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("\n  merge "));
  const Outcome other = run_program({"report", "merg", "x"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("there is no subcommand merg; did you mean merge?"));
}

}  // namespace
}  // namespace penstock::test::report_merge_test
