// Servers that send elsewhere, refuse their own ETags, know no ranges, or take few requests.
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <thread>

#include <gmock/gmock.h>

#include <penstock/remote_files.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string moved_to(const std::string& where) {
  return "HTTP/1.1 302 x\r\nLocation: " + where + "\r\nContent-Length: 0\r\n\r\n";
}

std::string empty_answer(const std::string& status) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n";
}

/// Returns the answer for the range that a request asks for, with more lines in its head.
std::string range_answer(const std::string& head, std::string_view contents,
                         const std::string& more) {
  std::uint64_t first = 0, last = contents.size() - 1;
  const std::size_t at = head.find("bytes=");
  if (at != head.npos) std::sscanf(head.c_str() + at, "bytes=%" SCNu64 "-%" SCNu64, &first, &last);
  const std::string_view body = contents.substr(first, last - first + 1);
  return "HTTP/1.1 206 x\r\nContent-Range: bytes " + std::to_string(first) + '-' +
         std::to_string(last) + '/' + std::to_string(contents.size()) + "\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string at_localhost(const HttpServer& server, const std::string& path) {
  return "http://localhost:" + std::to_string(server.port()) + path;
}

class OddAnswers : public testing::Test {
 protected:
  OddAnswers() { choose_remote(options()); }
  ~OddAnswers() override { choose_remote({}); }

  static RemoteOptions options() {
    RemoteOptions options;
    options.retry_wait = std::chrono::milliseconds(1);
    options.deadline = std::chrono::seconds(20);
    options.hedge = false;  // so that requests can be counted
    options.read_ahead_bytes = 0;
    return options;
  }
  static std::string read(File& file, std::uint64_t offset, std::size_t size) {
    std::string out(size, '\0');
    file.read_exactly(offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  static std::shared_ptr<File> open(const std::string& path) {
    return default_file_system()->open(path);
  }

  const std::string text_ = noise(100'000);
};

TEST_F(OddAnswers, RedirectsToAnotherServer) {
  const HttpServer there({{"/new", text_}});
  std::atomic<int> asked = 0;
  const HttpServer here({}, {.instead = [&](const std::string&, const std::string&) {
                          ++asked;
                          return moved_to(at_localhost(there, "/new"));
                        }});
  const auto file = open(here.url() + "/old");
  EXPECT_EQ(read(*file, 0, text_.size()), text_);
  EXPECT_EQ(read(*file, 50'000, 100), text_.substr(50'000, 100));
  EXPECT_EQ(asked, 1);  // the way is known
  EXPECT_THAT(there.log(), Not(HasSubstr("Authorization")));
  EXPECT_THAT(there.log(), Not(HasSubstr("Referer")));
}

TEST_F(OddAnswers, RedirectsOfWhatIsSecret) {
  const HttpServer there({{"/new", text_}});
  const HttpServer here({}, {.instead = [&](const std::string&, const std::string&) {
                          return moved_to(at_localhost(there, "/new"));
                        }});
  const std::string port = std::to_string(here.port());
  for (const std::string& url :
       {"http://me:word@127.0.0.1:" + port + "/old", here.url() + "/old?X-Amz-Signature=12ab",
        here.url() + "/old?sig=12ab"})
    expect_error(ErrorCode::invalid_argument, "credentials are not for that server",
                 [&] { default_file_system()->info(default_file_system()->glob(url).at(0)); });
  EXPECT_EQ(there.requests(), 0);
}

TEST_F(OddAnswers, RedirectsThatExpire) {
  std::atomic<int> token = 1;
  const HttpServer there(
      {{"/new", text_}}, {.instead = [&](const std::string&, const std::string& target) {
        return target == "/new?token=" + std::to_string(token) ? std::string()
                                                               : empty_answer("403 Forbidden");
      }});
  const HttpServer here(
      {}, {.instead = [&](const std::string&, const std::string&) {
        return moved_to(at_localhost(there, "/new?token=") + std::to_string(token));
      }});
  const auto file = open(here.url() + "/old");
  for (token = 1; token < 5; ++token)
    EXPECT_EQ(read(*file, 1000 * token, 100), text_.substr(1000 * token, 100));
  EXPECT_LE(here.requests(), 5);
}

TEST_F(OddAnswers, RefusalOfTheETagThatWasGiven) {
  HttpServerOptions options;
  options.instead_of = [](const std::string& head) {
    return head.find("If-Match") != head.npos ? empty_answer("412 Precondition Failed") : "";
  };
  HttpServer server({{"/a", text_}, {"/b", text_}}, options);
  LogCapture log;
  EXPECT_EQ(read(*open(server.url() + "/a"), 10, 100), text_.substr(10, 100));
  EXPECT_EQ(log.count("rejects its own ETags"), 1);
  const std::uint64_t before = server.requests();
  const auto file = open(server.url() + "/b");
  EXPECT_EQ(read(*file, 10, 100), text_.substr(10, 100));
  EXPECT_EQ(server.requests(), before + 2);  // which are sent without If-Match
  server.replace("/b", noise(100'000, 7));
  expect_error(ErrorCode::changed, "its ETag is another", [&] { read(*file, 90'000, 1000); });
}

TEST_F(OddAnswers, ETagsThatDifferBetweenServers) {
  constexpr const char* kDate = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
  std::atomic<int> number = 0;
  HttpServerOptions odd;
  std::atomic<const char*> date = kDate;
  odd.instead_of = [&](const std::string& head) {
    return range_answer(head, text_,
                        "ETag: \"" + std::to_string(++number) + "\"\r\n" + std::string(date));
  };
  const HttpServer server({}, odd);
  expect_error(ErrorCode::changed, "--trust-data", [&] { read(*open(server.url() + "/a"), 5, 9); });
  RemoteOptions trusting = options();
  trusting.trust_dates = true;
  choose_remote(trusting);
  const auto file = open(server.url() + "/a");
  EXPECT_EQ(read(*file, 0, text_.size()), text_);
  EXPECT_EQ(read(*open(server.url() + "/a"), 5, 9), text_.substr(5, 9));
  date = "Last-Modified: Wed, 21 Oct 2015 07:28:01 GMT\r\n";
  expect_error(ErrorCode::changed, "Last-Modified is another", [&] { read(*file, 99'000, 9); });
}

TEST_F(OddAnswers, ObjectsThatAreRemoved) {
  std::atomic<bool> sure = true;
  std::atomic<bool> removed = false;
  std::atomic<int> number = 0;
  const HttpServer server(
      {{"/a", text_}}, {.instead = [&](const std::string&, const std::string&) {
        if (!removed) return std::string();
        return empty_answer(sure || ++number % 2 == 0 ? "404 Not Found" : "403 Forbidden");
      }});
  for (const bool it_is : {false, true}) {
    removed = false;
    const auto file = open(server.url() + "/a");
    removed = true;
    sure = it_is;
    const std::optional<Error> error = thrown_by([&] { read(*file, 10, 100); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), it_is ? ErrorCode::changed : ErrorCode::unavailable);
    EXPECT_EQ(error->cause().find("was removed") != std::string::npos, it_is);
  }
}

TEST_F(OddAnswers, NoRanges) {
  const std::string text = "the first bytes" + text_;
  const HttpServer server({{"/a", text}}, {.ranges = false});
  const auto file = open(server.url() + "/a");
  EXPECT_EQ(read(*file, 0, text.size()), text);
  const std::uint64_t before = server.requests();
  const std::optional<Error> error = thrown_by([&] { read(*file, 10, 100); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("does not support ranges"));
  EXPECT_THAT(error->what(), Not(HasSubstr("first bytes")));
  EXPECT_EQ(server.requests(), before);
}

TEST_F(OddAnswers, ChunksWithoutALength) {
  HttpServerOptions odd;
  std::atomic<std::size_t> size = 100'000;
  odd.instead_of = [&](const std::string&) {
    char chunk[32];
    std::snprintf(chunk, sizeof(chunk), "%zx\r\n", size.load());
    return "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n" +
           std::string(chunk) + noise(size) + "\r\n0\r\n\r\n";
  };
  const HttpServer server({}, odd);
  const auto file = open(server.url() + "/a");
  EXPECT_EQ(default_file_system()->info(server.url() + "/a").size, 100'000);
  EXPECT_EQ(read(*file, 0, 100'000), noise(100'000));
  expect_error(ErrorCode::invalid_argument, "does not support ranges", [&] { read(*file, 5, 10); });
  size = 100'001;
  EXPECT_TRUE(thrown_by([&] { read(*file, 0, 100'000); }));
}

TEST_F(OddAnswers, ServersThatTakeFewRequestsASecond) {
  constexpr int kRate = 300;
  constexpr std::size_t kReads = 1000;
  std::mutex mutex;
  std::int64_t second = 0;
  int count = 0;
  std::atomic<int> refused = 0;
  HttpServerOptions odd;
  odd.instead = [&](const std::string&, const std::string&) {
    const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count();
    const std::scoped_lock lock(mutex);
    if (std::exchange(second, now) != now) count = 0;
    if (++count <= kRate) return std::string();
    ++refused;
    return empty_answer("503 Slow Down");
  };
  const HttpServer server({{"/a", text_}}, odd);
  RemoteOptions few = options();
  few.retry_wait = std::chrono::milliseconds(50);
  choose_remote(few);
  const auto file = open(server.url() + "/a");
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 16; ++i)
    readers.emplace_back([&] {
      for (std::size_t at = 0; (at = next++) < kReads;)
        EXPECT_EQ(read(*file, 90 * at, 9), text_.substr(90 * at, 9));
    });
  readers.clear();
  EXPECT_LE(server.requests(), 3 * kReads / 2);
  EXPECT_EQ(server.requests() - refused, kReads + 1);
}

}  // namespace
}  // namespace penstock::test
