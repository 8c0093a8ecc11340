#include "pipeline/http/state_file.h"
#include "pipeline/io/durable.h"

#include <cerrno>
#include <map>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/strangers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using testing::HasSubstr;

void write_state(const std::string& path, std::string_view state, WriteFault fault = {}) {
  StateFile(path).save(state, std::move(fault));
}

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
    EXPECT_EQ(names_in(folder),
              i == 0 ? std::vector<std::string>({"state", "state.lock"})
                     : std::vector<std::string>({"state", "state.lock", "state.previous"}));
    if (i > 0) {
      EXPECT_EQ(load_state(path + ".previous"), before);
    }
    before = states[i];
  }
}

TEST(StateFile, DamagedState) {
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
  EXPECT_EQ(log.count("resuming from the previous state"), damaged + 1);
  test::figure("F10", "%d cuts and flipped bits of a state file: the one before is found", damaged);
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

TEST(StateFile, FailureAtEveryStep) {
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
        EXPECT_THAT(name, testing::AnyOf("state", "state.lock", "state.previous"));
      if (!failed) break;
    }
    EXPECT_EQ(fails, 7);  // create, write twice, sync, keep, rename, sync folder
    test::figure(code == ENOSPC ? "F8" : "F11", "%d of 7 steps of a save failed with %s: damaged 0",
                 fails, code == ENOSPC ? "ENOSPC" : "EIO, fsync among them");
  }
}

/// A disk that loses power: what was not synced may be there or not, each on its own; of a file's
/// contents any part may be. Follows a save through DurableFile's steps and says, for a cut in
/// front of each of them, what may be found afterwards.
class PowerCuts {
 public:
  using Disk = std::map<std::string, std::string>;  // name: contents

  PowerCuts(Disk disk, std::string contents, bool honest)
      : disk_(std::move(disk)), contents_(std::move(contents)), honest_(honest) {}

  /// The next step is about to be done.
  void before(std::string_view step) {
    add_outcomes();
    if (step == "create") changes_.emplace_back("", kTemporary);
    if (step == "sync") synced_ = honest_;
    if (step == "keep") changes_.emplace_back("state", "state.previous");
    if (step == "rename") changes_.emplace_back(kTemporary, "state");
  }
  void after_all() {
    add_outcomes();
    durable_ = true;
    add_outcomes();
  }
  /// What may be found, and whether the save had been promised by then.
  const std::vector<std::pair<Disk, bool>>& outcomes() const { return outcomes_; }

 private:
  static constexpr const char* kTemporary = "state.partial";

  void add_outcomes() {
    std::vector<std::string> parts{contents_};
    if (!synced_) {
      parts.insert(parts.end(), {"", contents_.substr(0, contents_.size() / 2),
                                 contents_.substr(0, contents_.size() - 1),
                                 std::string(contents_.size(), '\0')});
    }
    const std::size_t all = (std::size_t{1} << changes_.size()) - 1;
    for (std::size_t kept = durable_ ? all : 0; kept <= all; ++kept) {
      for (const std::string& part : parts) {
        Disk disk = disk_;
        bool possible = true;
        for (std::size_t i = 0; i < changes_.size(); ++i) {
          if ((kept >> i & 1) == 0) continue;
          const auto& [from, to] = changes_[i];
          const std::string moved = from == "state" ? disk[from] : part;
          if (!from.empty()) disk.erase(from);
          possible = possible && (from != "state" || !moved.empty());
          disk[to] = moved;
        }
        if (possible) outcomes_.emplace_back(std::move(disk), durable_);
      }
    }
  }

  Disk disk_;
  const std::string contents_;
  const bool honest_;
  bool synced_ = false;
  bool durable_ = false;
  std::vector<std::pair<std::string, std::string>> changes_;
  std::vector<std::pair<Disk, bool>> outcomes_;
};

// F10, with what was not synced dropped.
TEST(StateFile, PowerCutAnywhere) {
  const test::TempFolder scratch;
  const auto file_of = [&](const std::string& state) {
    write_state(scratch / "s", state, {});
    return test::read_file(scratch / "s");
  };
  const PowerCuts::Disk before{{"state", file_of("old")}, {"state.previous", file_of("older")}};
  test::LogCapture log;  // a damaged state is said
  for (const bool honest : {true, false}) {
    const test::TempFolder folder;
    for (const auto& [name, contents] : before) folder.write(name, contents);
    PowerCuts cuts(before, file_of("new"), honest);
    write_state(folder / "state", "new", [&](const char* step) {
      cuts.before(step);
      return 0;
    });
    cuts.after_all();
    std::map<std::string, int> found;
    for (const auto& [disk, promised] : cuts.outcomes()) {
      const test::TempFolder after;
      for (const auto& [name, contents] : disk) after.write(name, contents);
      std::string state;
      try {
        state = load_state(after / "state").value_or("nothing");
      } catch (const Error&) {
        state = "bad";
      }
      if (state != "new" && (promised || (state != "old" && state != "older"))) state = "bad";
      ++found[state];
    }
    if (honest) {
      EXPECT_EQ(found["bad"] + found["older"], 0);
      EXPECT_GT(found["old"], 0);
      EXPECT_GT(found["new"], 0);
      test::figure("F10", "%zu power cuts with unsynced data dropped: old %d, new %d, bad %d",
                   cuts.outcomes().size(), found["old"], found["new"], found["bad"]);
    } else {
      EXPECT_GT(found["bad"], 0) << "a disk that ignores fsync must be seen to lose a promise";
    }
  }
}

// Each of them is whole, and so is the one before, whoever saved last.
TEST(StateFile, ConcurrentSaves) {
  const test::TimeLimit limit(100);
  const test::TempFolder folder;
  const std::string path = folder / "state";
  // Few enough that on a slow disk no writer waits for the others longer than save_state allows.
  constexpr int kSaves = 15;
  const auto state_of = [](int writer, int number) {
    return std::to_string(writer) + ":" + test::noise(20'000, static_cast<std::uint64_t>(number));
  };
  const auto save_all = [&](int writer) {
    for (int i = 0; i < kSaves; ++i) save_state(path, state_of(writer, i));
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    save_all(0);
    ::_exit(0);
  }
  {
    std::vector<std::jthread> threads;
    for (int writer = 1; writer <= 2; ++writer) threads.emplace_back(save_all, writer);
    const auto is_whole = [&](const std::string& state) {
      for (int i = 0; i < kSaves; ++i)
        if (state.substr(1) == state_of(0, i).substr(1)) return true;
      return false;
    };
    for (int i = 0; i < kSaves; ++i) {
      for (const std::string& name : {path, path + ".previous"}) {
        const std::optional<std::string> state = load_state(name);
        EXPECT_TRUE(!state || is_whole(*state)) << name;
      }
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(load_state(path) && load_state(path + ".previous"));
  EXPECT_EQ(names_in(folder), std::vector<std::string>({"state", "state.lock", "state.previous"}));
}

TEST(StateFile, IsOneRunsAtATime) {
  const test::TempFolder folder;
  std::filesystem::create_symlink("state", folder / "link");
  StateFile run(folder / "state");
  run.save("first");
  for (const char* name : {"state", "link"})
    test::expect_error(ErrorCode::unavailable, "process " + std::to_string(::getpid()),
                       [&] { StateFile(folder / name); });
  run.save("second");
  EXPECT_EQ(load_state(folder / "link"), "second");
}

TEST(StateFile, TouchesNothingThatStandsBesideIt) {
  const test::TimeLimit limit(100);
  for (const test::Stranger& stranger : test::strangers()) {
    const test::TempFolder folder;
    const std::string victim = folder.write("victim", "precious");
    stranger.put(folder / "state.partial", victim);
    save_state(folder / "state", "one");
    save_state(folder / "state", "two");
    EXPECT_EQ(load_state(folder / "state"), "two") << stranger.name;
    EXPECT_EQ(test::read_file(victim), "precious") << stranger.name;
    EXPECT_TRUE(stranger.stands(folder / "state.partial", victim)) << stranger.name;
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

TEST(StateFile, AreBesideTheFileThatALinkLeadsTo) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / "other");
  std::filesystem::create_symlink("other/state", folder / "link");
  EXPECT_EQ(load_state(folder / "link"), std::nullopt);
  save_state(folder / "link", "one");
  save_state(folder / "link", "two");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(load_state(folder / "other/state"), "two");
  folder.write("other/state", "damage");
  EXPECT_EQ(load_state(folder / "link"), "one");
}

}  // namespace
}  // namespace penstock
