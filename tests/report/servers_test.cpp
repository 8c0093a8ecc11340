// What a report says of servers of data that a run waits for.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "report/run_report.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A run whose source waits nearly all the time.
RunReport waiting(const RemoteStats& remote) {
  RunReport report;
  report.of_program = true;
  report.elements = 1000;
  report.batches = 100;
  report.epochs = 1;
  report.wall_s = 10;
  report.first_batch_s = 0.1;
  report.wait_s = 9.9;
  report.cpu_s = 0.5;
  report.cpus = 4;
  report.stats.threads = 4;
  report.stats.readers = 8;
  report.stats.memory.budget_bytes = 1 << 30;
  StageStats source;
  source.name = "tar";
  source.items = 1000;
  source.busy_s = source.apart_s = 75;
  StageStats batch;
  batch.name = "batch";
  batch.items = 1000;
  batch.busy_s = 0.1;
  report.stats.stages = {source, batch};
  report.remote = remote;
  return report;
}

/// 1,000 requests of 50 ms, of which 48 until the first byte.
RemoteStats usual() {
  RemoteStats remote;
  remote.requests = 1000;
  remote.hedged = 2;
  remote.bytes = 120'000'000;
  remote.bytes_needed = 110'000'000;
  remote.waiting_s = 50;
  remote.connections = 256;
  remote.latency_ms = 48;
  remote.bytes_per_second = 5e7;
  return remote;
}

TEST(Servers, Verdicts) {
  const std::string begins = verdict(waiting(usual())).text;
  EXPECT_THAT(begins, HasSubstr("tar limits the run"));
  EXPECT_THAT(begins, HasSubstr("it waits for servers (5"));
  EXPECT_THAT(begins, HasSubstr("mostly for answers to begin: reading further ahead (--memory"));
  RemoteStats all = usual();
  all.connections = 5;
  EXPECT_THAT(verdict(waiting(all)).remedy,
              HasSubstr("more --remote-connections or larger records"));
  RemoteStats narrow = usual();
  narrow.latency_ms = 5;
  EXPECT_THAT(verdict(waiting(narrow)).remedy, HasSubstr("a faster network, or --cache-dir"));
  RemoteStats throttled = usual();
  throttled.throttled = 40;
  EXPECT_THAT(verdict(waiting(throttled)).remedy, HasSubstr("they throttled it 40 times"));
  RunReport here = waiting(usual());
  here.remote.reset();
  EXPECT_THAT(verdict(here).text, Not(HasSubstr("servers")));
}

TEST(Servers, AreInTextAndJson) {
  RemoteStats remote = usual();
  remote.again = 3;
  remote.throttled = 7;
  remote.requests_per_second = 480;
  remote.bytes_cached = 5 << 20;
  const std::string text = report_text(waiting(remote), false, 100);
  EXPECT_THAT(text, HasSubstr("servers: 1,000 requests, 3 retried, 2 hedged"));
  EXPECT_THAT(text, HasSubstr("7 told to slow down (now at most 480 a second)"));
  EXPECT_THAT(text, HasSubstr("5.0 MiB from the cache"));
  const auto json = nlohmann::json::parse(report_json(waiting(remote)));
  EXPECT_EQ(json["remote"]["requests"], 1000);
  EXPECT_EQ(json["remote"]["bytes"], 120'000'000);
  EXPECT_EQ(json["remote"]["connections"], 256);
  EXPECT_EQ(json["remote"]["requests_per_second"], 480);
  RunReport here = waiting(remote);
  here.remote.reset();
  EXPECT_FALSE(nlohmann::json::parse(report_json(here)).contains("remote"));
  EXPECT_THAT(report_text(here, false, 100), Not(HasSubstr("servers:")));
}

}  // namespace
}  // namespace penstock
