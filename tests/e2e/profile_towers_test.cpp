// The profiler with devices, from the outside.
#include <chrono>

#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Flags = std::vector<std::string>;
using nlohmann::json;

TEST(Towers, AreFedInEveryMode) {
  for (const char* mode : {"split", "per_tower", "sharded"}) {
    const Outcome outcome = run_program({"profile", "--range", "4096", "--batch", "32", "--device",
                                         "host:0,host:1", "--step-ms", "2", "--feed", mode,
                                         "--batches", "60", "--quiet", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json report = outcome.json();
    EXPECT_EQ(report["outcome"], "batch limit");
    ASSERT_EQ(report["towers"].size(), 2U);
    for (const json& tower : report["towers"]) {
      EXPECT_THAT(tower["device"].get<std::string>(), StartsWith("host:"));
      EXPECT_EQ(tower["steps"], 30);
      EXPECT_EQ(tower["elements"], mode == std::string("split") ? 480 : 960);
      EXPECT_GE(tower["step_s"].get<double>(), 0.060);
      const double stall = tower["stall_s"];
      double causes = 0;
      for (const auto& [name, seconds] : tower["causes"].items()) causes += seconds.get<double>();
      EXPECT_NEAR(causes, stall, 0.01 * stall + 1e-6);
      const double sum = stall + tower["step_s"].get<double>() + tower["other_s"].get<double>();
      EXPECT_NEAR(sum, tower["wall_s"].get<double>(), 0.01 * sum);
      for (const char* field : {"stall_share", "copy_s", "copy_hidden_share"})
        EXPECT_TRUE(tower[field].is_number()) << field;
    }
  }
}

Outcome on_device(const std::string& device, const Flags& more = {}) {
  Flags flags{"profile",  "--range", "100000", "--batch", "16",
              "--device", device,    "--json", "-",       "--quiet"};
  flags.insert(flags.end(), more.begin(), more.end());
  return run_program(flags);
}

TEST(Towers, SayWhatTheyWereGivenAndWhatWasLost) {
  for (const char* mode : {"per_tower", "sharded"}) {
    const Outcome outcome =
        run_program({"profile", "--range", "300", "--batch", "16", "--device", "host:0,host:1",
                     "--feed", mode, "--epochs", "2", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json report = outcome.json();
    EXPECT_EQ(report["guarantee"], "EXACT");
    EXPECT_EQ(report["elements"], 576);
    EXPECT_EQ(report["lost"], 24);
    EXPECT_EQ(report["wrapped"], 0);
    EXPECT_TRUE(report["failure"].is_null());
    EXPECT_THAT(outcome.err, HasSubstr("24 elements left at the end of epochs"));
    ASSERT_EQ(report["audit"].size(), mode == std::string("sharded") ? 0U : 2U);
    std::uint64_t epoch = 0;
    for (const json& audit : report["audit"]) {
      EXPECT_EQ(audit["epoch"], epoch++);
      EXPECT_EQ(audit["expected"], 300);
      EXPECT_EQ(audit["missing"], 0);
    }
  }
}

TEST(Towers, ExitCodeOfALostDevice) {
  const Outcome outcome = on_device("host:0,host:1:fail_record=60:sticky");
  EXPECT_EQ(outcome.code, 70);
  EXPECT_EQ(outcome.json()["outcome"], "device lost");
  EXPECT_EQ(outcome.json()["failure"]["code"], "device_lost");
  EXPECT_THAT(outcome.json()["failure"]["cause"].get<std::string>(),
              HasSubstr("the device with it"));
  EXPECT_THAT(outcome.err, AllOf(StartsWith("penstock: host:1: "), HasSubstr("the device with it"),
                                 Not(HasSubstr("host:0"))));
  EXPECT_EQ(outcome.json()["towers"].size(), 2U);
}

TEST(Towers, ExitCodeOfAHangingCopy) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = on_device("host:0:hang_copy=9,host:1", {"--watchdog", "3"});
  EXPECT_EQ(outcome.code, 75);
  EXPECT_EQ(outcome.json()["outcome"], "no progress");
  EXPECT_THAT(outcome.err,
              testing::ContainsRegex("penstock: the copy into slot [01] of host:0 on stream copy"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Towers, LittleDeviceMemory) {
  const Outcome fewer = on_device("host:0:fail_allocation=2", {"--batches", "50"});
  EXPECT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_EQ(fewer.json()["batches"], 50);
  EXPECT_THAT(fewer.err, AllOf(HasSubstr("1 of 2 slots"), HasSubstr("bytes of device memory")));
  const Outcome none = on_device("host:0:memory=10");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("128 bytes of device memory wanted, 10 of 10 free")));
}

TEST(Towers, RefusedPinning) {
  const Outcome outcome = on_device("host:0:copies:fail_pinning=1", {"--batches", "50"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t said = outcome.err.find("pinning memory was refused");
  ASSERT_NE(said, std::string::npos);
  EXPECT_EQ(outcome.err.find("pinning memory was refused", said + 1), std::string::npos);
}

TEST(Towers, UnknownDeviceOption) {
  const Outcome outcome = on_device("host:0:speed=9");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("bytes_per_s=N"), HasSubstr("not \"speed=9\"")));
}

}  // namespace
}  // namespace penstock::test
