#include "pipeline/io/state_file.h"

#include <cerrno>

#include <gmock/gmock.h>

#include "tests/support/files.h"
#include "tests/support/log_capture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_in(const test::TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(StateFile, KeepsTheLastTwo) {
  const test::TempFolder folder;
  const std::string path = folder / "state";
  EXPECT_EQ(load_state(path), std::nullopt);
  const std::vector<std::string> states{"one", "", test::noise(300'000), std::string(1, '\0')};
  std::string before;
  for (std::size_t i = 0; i < states.size(); ++i) {
    save_state(path, states[i]);
    EXPECT_EQ(load_state(path), states[i]);
    EXPECT_EQ(names_in(folder), i == 0 ? std::vector<std::string>{"state"}
                                       : std::vector<std::string>({"state", "state.previous"}));
    if (i > 0) {
      EXPECT_EQ(load_state(path + ".previous"), before);
    }
    before = states[i];
  }
}

TEST(StateFile, DamageLeadsToTheOneBefore) {
  const test::TempFolder folder;
  const std::string path = folder / "state";
  save_state(path, "the first");
  save_state(path, "the second");
  const std::string whole = test::read_file(path);
  test::LogCapture log;
  int damaged = 0;
  for (std::size_t size = 0; size < whole.size(); ++size, ++damaged) {
    folder.write("state", whole.substr(0, size));
    ASSERT_EQ(load_state(path), "the first") << "cut at " << size;
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit, ++damaged) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    folder.write("state", flipped);
    ASSERT_EQ(load_state(path), "the first") << "bit " << bit;
  }
  folder.write("state", whole + "x");
  EXPECT_EQ(load_state(path), "the first");
  EXPECT_EQ(log.count("going on from the state before"), damaged + 1);
  // The damaged one is not worth keeping: the first stays the one before.
  save_state(path, "the third");
  folder.write("state", "garbage");
  EXPECT_EQ(load_state(path), "the first");
  folder.write("state.previous", "");
  try {
    (void)load_state(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_loss);
    EXPECT_EQ(error.where().shard, path);
    EXPECT_THAT(error.what(), HasSubstr("not a state file"));
  }
}

TEST(StateFile, AnyFailingStepLeavesAWholeState) {
  for (const int code : {EIO, ENOSPC}) {
    const test::TempFolder folder;
    const std::string path = folder / "state";
    int fails = 0;
    for (int n = 1;; ++n) {
      write_state(path, "older", {});
      write_state(path, "old", {});
      int step = 0;
      bool failed = false;
      bool renamed = false;
      try {
        write_state(path, "new", [&](const char* what) {
          renamed = renamed || std::string_view(what) == "sync folder";
          return ++step == n ? code : 0;
        });
      } catch (const Error& error) {
        EXPECT_EQ(error.code(),
                  code == EIO ? ErrorCode::unavailable : ErrorCode::resource_exhausted);
        EXPECT_EQ(error.where().shard, path);
        failed = true;
        ++fails;
      }
      EXPECT_EQ(load_state(path), renamed ? "new" : "old") << n;
      for (const std::string& name : names_in(folder))
        EXPECT_THAT(name, testing::AnyOf("state", "state.previous"));
      if (!failed) break;
    }
    EXPECT_EQ(fails, 7);  // create, write twice, sync, keep, rename, sync folder
  }
}

TEST(StateFile, SaysWhyItCantBeWritten) {
  const test::TempFolder folder;
  try {
    save_state(folder / "no/state", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), HasSubstr("no/state"));
  }
}

}  // namespace
}  // namespace penstock
