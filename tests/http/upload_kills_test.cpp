// Processes that write to a store are killed at any point, beside requests that fail: every object
// that anybody sees is whole, what was acknowledged is there, and states resume from one to the
// next.
//
// PENSTOCK_KILLS says how many (50), PENSTOCK_KILLS_SEED makes another series.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "pipeline/http/state_file.h"
#include "tests/http/upload_victim.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

int upload_setting(const char* name, int usual) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : usual;
}

class UploadKills : public testing::Test {
 protected:
  static HttpServerOptions failing() {
    HttpServerOptions options;
    options.fault_every = 31;
    options.latency = std::chrono::microseconds(300);
    for (int fault = 0; fault < static_cast<int>(kHttpFaultNames.size()); ++fault)
      options.faults.push_back(static_cast<HttpFault>(fault));
    return options;
  }
  Process victim(const std::string& name, int seed) const {
    return Process({built("upload_victim"), server_.url(), name, std::to_string(seed),
                    folder_ / (name + ".log")},
                   {"AWS_ACCESS_KEY_ID=AKEXAMPLE", "AWS_SECRET_ACCESS_KEY=very/secret"});
  }
  /// What processes say that they have done or found: objects all, and states one after the other.
  void expect_done(const std::string& name) {
    std::istringstream lines(read_file(folder_ / (name + ".log")));
    int last = 0;
    for (std::string line; std::getline(lines, line);) {
      char what[8] = {};
      unsigned number = 0;
      if (std::sscanf(line.c_str(), "%7s %u", what, &number) != 2) continue;
      if (what[0] == 's') {
        const int count = static_cast<int>(number);
        // Of one whose answer a process did not live to see the next one says that it found it.
        EXPECT_TRUE(count == last || count == last + 1)
            << name << ": " << count << " after " << last;
        last = count;
        continue;
      }
      const auto object = server_.store().find("/b/" + name + "-" + std::to_string(number));
      EXPECT_TRUE(object != nullptr &&
                  (whole_.contains(object) || object->contents == upload_of(number)))
          << line;
    }
    if (last == 0) return;  // perhaps none yet
    const auto state = server_.store().find("/b/" + name + ".state");
    ASSERT_NE(state, nullptr);
    // This one, or the next, whose answer the process did not live to see.
    const std::string held = parse_state_file(state->contents);
    const int count = std::atoi(held.c_str());
    EXPECT_TRUE(count == last || count == last + 1) << name << ": " << count << " after " << last;
    EXPECT_EQ(held, state_of(static_cast<unsigned>(count)));
  }
  /// Lines of all logs that begin so.
  int acknowledged(const std::string& what) const {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::istringstream lines(read_file(entry.path().string()));
      for (std::string line; std::getline(lines, line);) n += line.starts_with(what) ? 1 : 0;
    }
    return n;
  }
  /// Waits until the process has written an object, unless that takes long.
  void wait_for_object(const std::string& name, std::size_t log_before) const {
    constexpr std::size_t kTwoLines = sizeof("state 1\nobject 1\n");
    for (int i = 0; i < 1000; ++i) {
      std::error_code absent;
      const auto size = std::filesystem::file_size(folder_ / (name + ".log"), absent);
      if (!absent && size >= log_before + kTwoLines) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  /// Nothing that is seen is a part of something.
  void expect_whole() {
    const auto before = std::exchange(whole_, {});
    for (const auto& [path, object] : server_.store().objects()) {
      const std::size_t dash = path.rfind('-');
      if (path.ends_with(".state")) {
        if (!object->contents.empty()) parse_state_file(object->contents);
        continue;
      }
      whole_.insert(object);
      if (before.contains(object)) continue;
      ASSERT_EQ(object->contents,
                upload_of(static_cast<unsigned>(std::atoi(path.c_str() + dash + 1))))
          << path;
    }
  }

  const HttpServer server_{HttpServer::Files{}, failing()};
  const TempFolder folder_;
  std::set<std::shared_ptr<const StoredObject>> whole_;  // what was found to be so
};

TEST_F(UploadKills, LeaveNoHalfObjects) {
  const int kills = upload_setting("PENSTOCK_KILLS", 50);
  const TimeLimit limit(static_cast<unsigned>(120 + kills));
  std::mt19937 random(static_cast<unsigned>(upload_setting("PENSTOCK_KILLS_SEED", 1)));
  for (int killed = 0; killed < kills; killed += 2) {
    const std::string names[] = {"p" + std::to_string(killed % 8),
                                 "q" + std::to_string(killed % 8)};
    {
      std::error_code absent;
      const auto size = std::filesystem::file_size(folder_ / (names[0] + ".log"), absent);
      const Process first = victim(names[0], killed);
      const Process second = victim(names[1], killed + 1);
      // Some die while they begin.
      if (random() % 8 != 0) wait_for_object(names[0], absent ? 0 : size);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
      first.signal(SIGKILL);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    }
    expect_whole();
    for (const std::string& name : names) expect_done(name);
    ASSERT_FALSE(HasFailure());
  }
  const int objects = acknowledged("object");
  EXPECT_GT(objects, kills / 4);
  EXPECT_GT(server_.store().open_uploads(), 0);  // some were killed in the middle of one
  figure(
      "uploads",
      "%d kills: %d objects and %d states acknowledged, all there; %zu uploads left open, seen by "
      "nobody; half objects seen 0",
      kills, objects, acknowledged("state"), server_.store().open_uploads());
}

}  // namespace
}  // namespace penstock::test
