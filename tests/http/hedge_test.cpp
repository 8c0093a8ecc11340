// Answers that are late are asked for once more, few of them, and the first one counts.
#include <limits>

#include <gtest/gtest.h>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>

#include "pipeline/http/lateness.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using http::Lateness;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(Lateness, IsNotKnownFromFewAnswers) {
  Lateness late;
  for (std::size_t i = 0; i + 1 < Lateness::kLeast; ++i) late.took(1000, 0.01);
  EXPECT_EQ(late.late_after(1000), kNever);
  late.took(1000, 0.01);
  EXPECT_NEAR(late.late_after(1000), 0.04, 1e-6);
  // Others of about that size, and none of another.
  EXPECT_NEAR(late.late_after(1), 0.04, 1e-6);
  EXPECT_EQ(late.late_after(4 << 20), kNever);
  EXPECT_EQ(late.late_after(std::uint64_t(-1)), kNever);
}

TEST(Lateness, FollowsMedianAndSpread) {
  Lateness late;
  for (std::size_t i = 0; i < Lateness::kKnown; ++i) late.took(1000, i % 4 == 0 ? 1.0 : 0.1);
  EXPECT_NEAR(late.late_after(1000), 1.5, 1e-6);
  for (std::size_t i = 0; i < Lateness::kKnown; ++i) late.took(1000, 1e-4);
  EXPECT_EQ(late.late_after(1000), Lateness::kSoonest);
}

class HttpHedges : public testing::Test {
 protected:
  HttpHedges() {
    choose_remote({});
    RemoteOptions options;
    options.retry_wait = 1ms;
    options.most_request_bytes = 10'000;
    choose_remote(options);
  }
  ~HttpHedges() override { choose_remote({}); }

  static std::string read(File& file, std::uint64_t offset, std::size_t size) {
    std::string out(size, '\0');
    file.read_exactly(offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  static std::chrono::steady_clock::duration time_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::steady_clock::now() - start;
  }

  const std::string text_ = noise(1'000'000);
};

TEST_F(HttpHedges, FirstAnswer) {
  // The 250th request and each 250th behind it gets no answer for long.
  const HttpServer server({{"/a", text_}}, {.stall_every = 250, .stall = 3s});
  const auto file = default_file_system()->open(server.url() + "/a");
  const auto took = time_of([&] {
    for (int round = 0; round < 6; ++round) ASSERT_EQ(read(*file, 0, text_.size()), text_);
  });
  EXPECT_LT(took, 3s);
  const RemoteStats stats = remote_stats();
  EXPECT_GE(server.stalls(), 2);
  EXPECT_GE(stats.hedged, 2);
  EXPECT_LE(stats.hedged, stats.requests / 50 + 1);
  EXPECT_EQ(stats.again, 0);
  EXPECT_GE(stats.requests, server.requests());  // one that is ended at once does not arrive
}

TEST_F(HttpHedges, AreFewWhateverAServerDoes) {
  // More than one in fifty, and less than one in ten, of which what is usual would be learnt.
  const HttpServer server({{"/a", text_}}, {.stall_every = 25, .stall = 400ms});
  const auto file = default_file_system()->open(server.url() + "/a");
  for (int round = 0; round < 4; ++round) ASSERT_EQ(read(*file, 0, text_.size()), text_);
  const RemoteStats stats = remote_stats();
  EXPECT_GE(stats.hedged, 1);
  EXPECT_LE(static_cast<double>(stats.hedged), 0.02 * static_cast<double>(stats.requests) + 1);
}

TEST_F(HttpHedges, AreNoneWhereAllIsWell) {
  const HttpServer server({{"/a", text_}}, {.latency = 2ms});
  const auto file = default_file_system()->open(server.url() + "/a");
  for (int round = 0; round < 3; ++round) ASSERT_EQ(read(*file, 0, text_.size()), text_);
  EXPECT_LE(remote_stats().hedged, 2);  // a machine that others use
}

TEST_F(HttpHedges, FailedRequest) {
  HttpServer server({{"/a", text_}}, {.fault_every = 251,
                                      .faults = {HttpFault::internal, HttpFault::reset},
                                      .stall_every = 250,
                                      .stall = 400ms});
  const auto file = default_file_system()->open(server.url() + "/a");
  for (int round = 0; round < 8; ++round) ASSERT_EQ(read(*file, 0, text_.size()), text_);
  EXPECT_GE(remote_stats().hedged, 1);
}

}  // namespace
}  // namespace penstock::test
