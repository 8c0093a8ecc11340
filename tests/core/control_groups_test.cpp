#include <penstock/internal/control_groups.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/files.h"

namespace penstock {
namespace {

struct Case {
  const char* what;
  std::map<std::string, std::string> files;  // below the root
  std::string self;
  double cpus;
  double bytes;
};

TEST(ControlGroups, TheLeastLimitOfAllGroupsAround) {
  const Case cases[] = {
      {"no groups", {}, "", 0, 0},
      {"unlimited", {{"cpu.max", "max 100000\n"}, {"memory.max", "max\n"}}, "0::/\n", 0, 0},
      {"a container's own root",
       {{"cpu.max", "150000 100000"}, {"memory.max", "1048576"}},
       "0::/\n",
       1.5,
       1048576},
      {"its own group", {{"a/b/cpu.max", "50000 100000"}}, "0::/a/b\n", 0.5, 0},
      {"a group around it",
       {{"a/cpu.max", "200000 100000"}, {"a/b/cpu.max", "max 100000"}},
       "0::/a/b\n",
       2,
       0},
      {"the least",
       {{"a/cpu.max", "200000 100000"},
        {"a/b/cpu.max", "300000 100000"},
        {"cpu.max", "800000 100000"}},
       "0::/a/b\n",
       2,
       0},
      {"a sibling's", {{"a/c/cpu.max", "50000 100000"}}, "0::/a/b\n", 0, 0},
      {"version 1",
       {{"cpu/a/cpu.cfs_quota_us", "250000"},
        {"cpu/a/cpu.cfs_period_us", "100000"},
        {"memory/m/memory.limit_in_bytes", "4096"}},
       "4:memory:/m\n3:cpu,cpuacct:/a\n",
       2.5,
       4096},
      {"version 1, unlimited",
       {{"cpu/cpu.cfs_quota_us", "-1"}, {"cpu/cpu.cfs_period_us", "100000"}},
       "3:cpu:/\n",
       0,
       0},
      {"a controller of a like name",
       {{"cpu/a/cpu.cfs_quota_us", "250000"}, {"cpu/a/cpu.cfs_period_us", "100000"}},
       "3:cpuset:/a\n",
       0,
       0},
      {"damaged", {{"cpu.max", "many"}, {"memory.max", ""}}, "0\n:\n0:\n0::/\n", 0, 0},
      {"no period", {{"cpu.max", "100000"}}, "0::/\n", 0, 0},
  };
  const test::TempFolder folder;
  const std::filesystem::path root = folder / "groups";
  for (const Case& each : cases) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    for (const auto& [name, text] : each.files) {
      std::filesystem::create_directories((root / name).parent_path());
      std::ofstream(root / name) << text;
    }
    std::ofstream(root / "self") << each.self;
    const ControlGroups groups(root.string(), (root / "self").string());
    EXPECT_EQ(groups.cpu_quota(), each.cpus) << each.what;
    EXPECT_EQ(groups.memory_limit(), each.bytes) << each.what;
  }
}

TEST(ControlGroups, SayWhatTheirQuotaCost) {
  const test::TempFolder folder;
  const std::filesystem::path root = folder / "groups";
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  const auto groups = [&](const std::string& self) {
    write("self", self);
    return ControlGroups(root.string(), (root / "self").string());
  };
  std::filesystem::create_directories(root);
  EXPECT_EQ(groups("0::/a\n").throttled_s(), 0);
  write("a/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500000\n");
  write("a/b/cpu.stat", "usage_usec 9\n");
  EXPECT_EQ(groups("0::/a/b\n").throttled_s(), 2.5) << "the group around it was stopped";
  write("cpu/c/cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 1500000000\n");
  EXPECT_EQ(groups("3:cpu,cpuacct:/c\n").throttled_s(), 1.5);
}

}  // namespace
}  // namespace penstock
