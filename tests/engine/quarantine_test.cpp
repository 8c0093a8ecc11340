// The file that names bad elements.
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <malloc.h>
#include <sys/resource.h>

#include <penstock/sources.h>

#include "pipeline/engine/errors/quarantine.h"
#include "tests/engine/policies.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"
#include "tests/support/sanitizer.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::failing_at;
using test::Files;
using test::numbers;
using testing::HasSubstr;

TEST(Quarantine, NamesEachBadElementOnce) {
  const test::TempFolder folder;
  const std::string path = folder / "bad.jsonl";
  const Files files;
  TFRecordOptions source{};
  source.index_folder = "-";
  source.files = files.inner;
  const Dataset dataset = tfrecord({"part-*"}, source)
                              .map(
                                  [](Element element) {
                                    const auto text = element["record"].bytes_at();
                                    if (text[0] == '1')
                                      throw std::runtime_error("it \"begins\"\nwith 1");
                                    return element;
                                  },
                                  {.name = "picky"})
                              .shuffle()
                              .batch(4);
  const RunOptions options{.epochs = 3, .on_error = OnError::skip, .quarantine = path};
  std::string state;
  {
    Iterator iterator = dataset.iterate(options);
    for (int i = 0; i < 2; ++i) (void)iterator.next();
    state = iterator.save();
  }
  Iterator resumed = dataset.restore(state, options);
  do {
    while (!resumed.next().is_end()) {
    }
  } while (resumed.next_epoch());
  std::istringstream lines(test::read_file(path));
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(seen.insert(line).second) << line;
    EXPECT_THAT(line, testing::MatchesRegex(
                          R"(\{"shard":"part-[01]","offset":[0-9]+,"length":[0-9]+,"index":[0-9]+,)"
                          R"("stage":"map\[1\] picky","code":"user",)"
                          R"("cause":"it \\"begins\\"\\u000awith 1"\})"));
  }
  EXPECT_EQ(seen.size(), 11U);  // 1, 10 to 19
}

TEST(Quarantine, KnowsLinesWithoutKeepingThem) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "its allocator counts nothing here";
  constexpr int kLines = 40'000;
  const test::TempFolder folder;
  const auto line = [](int i) { return "a line of the quarantine, number " + std::to_string(i); };
  KnownLines known(folder.path());
  const std::size_t before = ::mallinfo2().uordblks;
  for (const bool fresh : {true, false}) {
    for (int i = 0; i < kLines; ++i) ASSERT_EQ(known.add(line(i)), fresh) << i;
  }
  EXPECT_TRUE(known.add(line(kLines)));
  EXPECT_LE(::mallinfo2().uordblks, before + (64 << 10));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the file has a name";
}

// Longer than a block, and with a line that a crash cut.
TEST(Quarantine, KnowsTheLinesOfEarlierRuns) {
  const test::TempFolder folder;
  const Dataset dataset = failing_at(failing_at(numbers(20), 7), 11);
  const RunOptions options{.on_error = OnError::skip, .quarantine = folder / "bad.jsonl"};
  EXPECT_EQ(test::values(dataset, options).size(), 18U);
  const std::string two = test::read_file(options.quarantine);
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "{\"other\":" + std::to_string(i) + "}\n";
  folder.write("bad.jsonl", many + two + "{\"cut");
  EXPECT_EQ(test::values(dataset, options).size(), 18U);
  EXPECT_EQ(test::read_file(options.quarantine), many + two + "{\"cut\n");
}

TEST(Quarantine, GoesOnWithoutItsFileWhenTheDiskIsFull) {
  const test::TempFolder folder;
  test::LogCapture log;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{10, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<std::int64_t> values = test::values(
      failing_at(numbers(20), 7), {.on_error = OnError::skip, .quarantine = folder / "bad.jsonl"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(values.size(), 19U);
  EXPECT_EQ(log.count("quarantine continues without its file"), 1U);
  EXPECT_EQ(log.count(std::generic_category().message(EFBIG)), 1U) << "the reason, by its name";
}

}  // namespace
}  // namespace penstock
