// `penstock serve` and `--workers` as users run them, by gRPC: the digests of runs without workers,
// while workers are killed, and over TLS.
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <penstock/internal/posix.h>

#include "tests/cluster/certificates.h"
#include "tests/support/free_port.h"
#include "tests/support/local_frames.h"
#include "tests/support/places.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// `penstock serve` in a process of its own.
class Worker {
 public:
  explicit Worker(const std::string& root, const Words& more = {}, std::string at = "127.0.0.1:0")
      : program_(with({"serve", "--root", root, "--listen", at, "--threads", "1"}, more),
                 folder_ / "out") {
    for (int i = 0; i < 2000 && address_.empty() && !program_.ended(); ++i) {
      std::this_thread::sleep_for(10ms);
      const std::string said = read_file(folder_ / "out");
      const std::size_t at_word = said.find(" at ");
      if (said.ends_with('\n') && at_word != said.npos)
        address_ = said.substr(at_word + 4, said.size() - at_word - 5);
    }
    if (address_.empty()) throw std::runtime_error("no worker: " + program_.written_to_stderr());
  }
  const std::string& address() const noexcept { return address_; }
  std::string said() const { return read_file(folder_ / "out"); }
  void kill() {
    program_.signal(SIGKILL);
    program_.wait();
  }
  int end() {
    program_.signal(SIGTERM);
    return program_.wait(20).code;
  }

 private:
  TempFolder folder_;
  Program program_;
  std::string address_;
};

class InputWorkers : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program({"synth", folder_ / "photos", "--images", "240", "--size", "96x96",
                           "--seed", "1"})
                  .code,
              0);
    std::filesystem::current_path(folder_.path());
  }
  static nlohmann::json profile(const Words& more) {
    return profile_json(
        with({"photos", "--shuffle", "--random-resized-crop", "48", "--flip", "--batch", "16",
              "--epochs", "4", "--seed", "7", "--digest", "--threads", "1"},
             more));
  }
  static double share(const nlohmann::json& json) {
    const double there = json["groups_of_workers"];
    return there / (there + json["groups_made_here"].get<double>());
  }

  TempFolder folder_;
  const TimeLimit limit_{150};
};

TEST_F(InputWorkers, GiveTheDigestOfARunWithoutThem) {
  const nlohmann::json alone = profile({});
  Worker first(folder_.path());
  Worker second(folder_.path());
  const nlohmann::json by_both =
      profile({"--workers", first.address() + "," + second.address(), "--local-threads", "0"});
  EXPECT_EQ(by_both["digest"], alone["digest"]);
  EXPECT_GE(share(by_both), 0.9);
  ASSERT_EQ(by_both["workers"].size(), 2U);
  int elements = 0;  // where one has no CPU in time, the other makes all
  for (const auto& worker : by_both["workers"]) {
    elements += worker["elements"].get<int>();
    EXPECT_EQ(worker["busy_s"] > 0, worker["elements"] > 0);
    EXPECT_TRUE(worker["problem"].is_null()) << worker["problem"];
  }
  EXPECT_GE(elements, 860) << "of 960";
  EXPECT_EQ(profile({"--workers", first.address()})["digest"], alone["digest"]);
  const nlohmann::json over_tcp =
      profile({"--workers", first.address(), "--local-threads", "0", "--wire", "tcp"});
  EXPECT_EQ(over_tcp["digest"], alone["digest"]);
  EXPECT_GE(share(over_tcp), 0.9);
  EXPECT_EQ(first.end(), 0);
}

TEST_F(InputWorkers, OfANameThatAnotherProcessHas) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const auto [at, size] = local_socket_of(address);
  const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(other.get(), 8), 0);
  std::jthread refuses([&] {  // until the socket is shut down
    for (int fd = 0; (fd = ::accept(other.get(), nullptr, nullptr)) >= 0;) ::close(fd);
  });
  Worker worker(folder_.path(), {}, address);
  const nlohmann::json json = profile({"--workers", address, "--local-threads", "0"});
  ::shutdown(other.get(), SHUT_RDWR);
  EXPECT_EQ(json["digest"], profile({})["digest"]);
  EXPECT_GE(share(json), 0.9);
}

TEST_F(InputWorkers, SendImagesOfFloatsAsTheirPixels) {
  const Words floats{"photos",  "--shuffle",   "--random-resized-crop",
                     "48",      "--normalize", "--batch",
                     "16",      "--seed",      "7",
                     "--digest"};
  Worker worker(folder_.path());
  const nlohmann::json json =
      profile_json(with(floats, {"--workers", worker.address(), "--local-threads", "0"}));
  EXPECT_EQ(json["digest"], profile_json(floats)["digest"]);
  EXPECT_GE(share(json), 0.9);
  constexpr double kPixels = 240.0 * 48 * 48 * 3;
  EXPECT_LT(json["workers"][0]["received_bytes"].get<double>(), 1.2 * kPixels);
}

TEST_F(InputWorkers, CompressWhatTheySendAndNoByteChanges) {
  if (run_program({"--version"}).out.find("LZ4 yes") == std::string::npos)
    GTEST_SKIP() << "this build has no LZ4";
  // Workers of this machine that need no certificate compress nothing.
  if (!cluster::test::make_certificates(folder_.path()))
    GTEST_SKIP() << "Debian's openssl is not installed";
  const Words tls{
      "--tls-cert", folder_ / "rank.pem", "--tls-key",    folder_ / "rank.key",
      "--tls-ca",   folder_ / "ca.pem",   "--token-file", folder_.write("token", "x\n")};
  ASSERT_EQ(run_program({"synth", folder_ / "texts", "--format", "csv", "--images", "20000"}).code,
            0);
  const Words flags{"texts", "--batch", "256", "--seed", "7", "--digest"};
  Worker worker(folder_.path(), tls);
  const nlohmann::json packed = profile_json(with(
      with(flags, {"--workers", worker.address(), "--local-threads", "0", "--wire", "lz4"}), tls));
  EXPECT_EQ(packed["digest"], profile_json(flags)["digest"]);
  EXPECT_GE(share(packed), 0.9);
  const nlohmann::json& row = packed["workers"][0];
  EXPECT_LT(row["received_bytes"].get<double>(), 0.9 * row["unpacked_bytes"].get<double>());
}

TEST_F(InputWorkers, WithACacheMakeWhatTwoTrainersAskForOnce) {
  const Words flags{"photos",    "--shuffle", "--random-resized-crop",
                    "48",        "--flip",    "--batch",
                    "16",        "--epochs",  "4",
                    "--seed",    "7",         "--digest",
                    "--threads", "1"};
  const nlohmann::json alone = profile_json(flags);
  Worker worker(folder_.path(), {"--memory", "512MiB", "--cache-memory", "128MiB"});
  const Words reach{"--workers", worker.address(), "--local-threads", "0"};
  // It takes 1.2 s, and is killed before.
  Program first(with(with({"profile"}, with(flags, reach)), {"--quiet", "--step-ms", "20"}));
  std::jthread killer([&] {
    std::this_thread::sleep_for(700ms);
    first.signal(SIGKILL);
  });
  std::this_thread::sleep_for(200ms);
  const nlohmann::json second = profile_json(with(flags, reach));
  killer.join();
  EXPECT_EQ(first.wait(20).code, 128 + SIGKILL);
  EXPECT_EQ(second["digest"], alone["digest"]);
  EXPECT_GE(share(second), 0.9);
  EXPECT_GT(second["workers"][0]["shared"], 0);
  EXPECT_EQ(worker.end(), 0);
  EXPECT_THAT(worker.said(), HasSubstr("cache: "));
}

TEST_F(InputWorkers, AreKilledAndComeAgainAndNoByteChanges) {
  const std::string digest = profile({})["digest"];
  auto victim = std::make_unique<Worker>(folder_.path());
  const std::string at = victim->address();
  Worker other(folder_.path());
  std::atomic<bool> stop{false};
  int kills = 0;
  std::jthread killer([&] {
    while (!stop) {
      std::this_thread::sleep_for(150ms);
      victim->kill();
      ++kills;
      victim = std::make_unique<Worker>(folder_.path(), Words{}, at);
    }
  });
  for (int i = 0; i < 3; ++i) {
    const nlohmann::json json = profile({"--workers", at + "," + other.address(), "--local-threads",
                                         "0", "--wire", i == 1 ? "tcp" : "none"});
    EXPECT_EQ(json["digest"], digest);
    EXPECT_EQ(json["audit"][0]["missing"], 0);
    EXPECT_EQ(json["audit"][0]["repeated"], 0);
    EXPECT_GE(share(json), 0.9);
  }
  stop = true;
  killer.join();
  EXPECT_GT(kills, 0);
}

TEST_F(InputWorkers, ShowCertificatesAndATokenOverTls) {
  if (!cluster::test::make_certificates(folder_.path()))
    GTEST_SKIP() << "Debian's openssl is not installed";
  const Words tls{"--tls-cert", folder_ / "rank.pem", "--tls-key",   folder_ / "rank.key",
                  "--tls-ca",   folder_ / "ca.pem",   "--token-file"};
  Worker worker(folder_.path(), with(tls, {folder_.write("token", "of this job\n")}));
  const Words reach{"--workers", worker.address(), "--local-threads", "0"};
  EXPECT_EQ(profile(with(with(reach, tls), {folder_ / "token"}))["digest"], profile({})["digest"]);
  const Outcome stranger =
      run_program(with(with({"profile", "photos", "--batch", "16", "--quiet"}, reach),
                       with(tls, {folder_.write("other", "of another\n")})));
  EXPECT_EQ(stranger.code, 1) << stranger.err;
  EXPECT_THAT(stranger.err, HasSubstr("token"));
}

TEST_F(InputWorkers, OpenNothingOutsideOfTheirFolder) {
  TempFolder other;
  Worker worker(other.path());
  const Outcome outside = run_program({"profile", folder_ / "photos", "--batch", "16", "--quiet",
                                       "--workers", worker.address(), "--local-threads", "0"});
  EXPECT_NE(outside.code, 0);
  EXPECT_THAT(outside.err, HasSubstr("outside the served folder"));
  const Outcome cache =
      run_program({"profile", "photos", "--cache", "kept", "--batch", "16", "--quiet", "--workers",
                   worker.address(), "--local-threads", "0"});
  EXPECT_NE(cache.code, 0);
  EXPECT_THAT(cache.err, HasSubstr("an input worker writes no files"));
}

TEST_F(InputWorkers, MissingWorker) {
  const Outcome outcome =
      run_program({"profile", "photos", "--batch", "16", "--quiet", "--workers", "127.0.0.1:9",
                   "--local-threads", "0", "--worker-timeout", "0.5"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("127.0.0.1:9"));
}

/// A trainer of one's own, with a callable, whose workers are the same program.
TEST(WorkersExample, GivesTheSameSumWithAWorkerKilledInTheMiddle) {
  const TempFolder folder;
  const std::string script = "cd " + folder.path() + " && P=" + built("examples/workers") + R"sh(
    $P > alone
    sleep 60 | $P --serve > a & sleep 60 | $P --serve > b & two=$!
    for i in $(seq 1000); do [ -s a ] && [ -s b ] && break; sleep 0.01; done
    one=$(pgrep -f "^$P --serve" | head -n 1)
    $P "$(cat a),$(cat b)" > with & run=$!
    sleep 0.03; kill -9 $one; wait $run; code=$?
    pkill -P $$ sleep; exit $code)sh";
  const std::string file = folder.write("script", script);
  EXPECT_EQ(std::system(("timeout -k 5 60 bash " + file).c_str()), 0);
  const std::string alone = read_file(folder / "alone");
  EXPECT_THAT(alone, HasSubstr("200 batches"));
  EXPECT_EQ(read_file(folder / "with"), alone);
}

}  // namespace
}  // namespace penstock::test
