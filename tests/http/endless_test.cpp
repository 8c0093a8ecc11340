// Servers that never end: an error within the time of one request, whatever is read.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "tests/support/aws_environment.h"
#include "tests/support/http_server.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDeadline{1000};
/// Much less than a deadline for each 4 MiB of the object, of which these reads have eight.
constexpr std::chrono::milliseconds kMost = 6 * kDeadline;

class EndlessServers : public testing::Test {
 protected:
  EndlessServers() {
    AwsEnvironment::set("AWS_ACCESS_KEY_ID", "AKEXAMPLE");
    AwsEnvironment::set("AWS_SECRET_ACCESS_KEY", "very/secret");
  }
  ~EndlessServers() override { choose_remote({}); }

  static RemoteOptions options() {
    RemoteOptions options;
    options.deadline = kDeadline;
    options.retry_wait = std::chrono::milliseconds(20);
    options.retries = 1000;
    options.stall = std::chrono::milliseconds(1000);
    options.hedge = false;
    return options;
  }
  /// Returns the error of an act, which comes in time.
  static Error error_of(const std::function<void()>& act) {
    const auto began = Clock::now();
    try {
      act();
    } catch (const Error& error) {
      EXPECT_LT(Clock::now() - began, kMost);
      return error;
    }
    return Error(ErrorCode::internal, "no error");
  }
  /// Finds the object while the server is well, and reads it when it is not.
  static void expect_error_of_read(
      const std::function<std::string(const std::atomic<bool>& over)>& instead,
      const std::string& why) {
    std::atomic<bool> well{true};
    const std::string object(32 << 20, 'x');
    const HttpServer server({{"/a", object}},
                            {.etags = false, .instead = [&](const auto&, const auto&) {
                               return well ? std::string() : instead(well);
                             }});
    choose_remote(options());
    const auto file = default_file_system()->open(server.url() + "/a");
    well = false;
    std::vector<std::byte> bytes(object.size());
    const Error error = error_of([&] { file->read_exactly(0, bytes); });
    EXPECT_EQ(error.code(), ErrorCode::unavailable) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(why));
    well = true;
  }

  const AwsEnvironment environment_;
  const TimeLimit limit_{60};
};

TEST_F(EndlessServers, EndlessRefusals) {
  expect_error_of_read(
      [](auto&) { return "HTTP/1.1 503 x\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"; },
      "503");
  expect_error_of_read([](auto&) { return "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n"; }, "500");
}

TEST_F(EndlessServers, SilentServers) {
  expect_error_of_read(
      [](const std::atomic<bool>& over) {
        const auto until = Clock::now() + 2 * kMost;
        while (!over && Clock::now() < until)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n";
      },
      "127.0.0.1");
}

TEST_F(EndlessServers, TruncatedBodies) {
  expect_error_of_read(
      [](auto&) {
        return "HTTP/1.1 206 x\r\nContent-Range: bytes 0-4194303/33554432\r\n"
               "Content-Length: 4194304\r\n\r\nx";
      },
      "127.0.0.1");
}

std::string page_of(const std::string& names, std::uint64_t number) {
  const std::string xml =
      "<ListBucketResult><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t" +
      std::to_string(number) + "</NextContinuationToken>" + names + "</ListBucketResult>";
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(xml.size()) + "\r\n\r\n" + xml;
}

std::string named(const std::string& key) {
  return "<Contents><Key>" + key + "</Key><Size>1</Size><ETag>\"e\"</ETag></Contents>";
}

TEST_F(EndlessServers, EndlessLists) {
  const std::vector<std::function<std::string(std::uint64_t)>> kinds = {
      [](std::uint64_t) { return std::string(); },
      [](std::uint64_t) { return named("same"); },
      [](std::uint64_t page) { return named("key" + std::to_string(page)); },
      [](std::uint64_t) { return named("folder/"); },
  };
  for (const auto& names : kinds) {
    std::atomic<std::uint64_t> pages{0};
    const HttpServer server({}, {.instead = [&](const std::string&, const std::string&) {
                              const std::uint64_t page = ++pages;
                              return page_of(names(page), page);
                            }});
    RemoteOptions s3 = options();
    s3.s3_endpoint = server.url();
    choose_remote(s3);
    const Error error = error_of([] { default_file_system()->list("s3://bucket/"); });
    EXPECT_EQ(error.code(), ErrorCode::data_loss);
    EXPECT_THAT(error.what(), HasSubstr("the list does not end"));
    EXPECT_THAT(error.what(), HasSubstr("s3://bucket/"));
  }
}

}  // namespace
}  // namespace penstock::test
