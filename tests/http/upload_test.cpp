// What is written to stores: whole objects or none, whatever requests come to.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>

#include "pipeline/http/upload.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kPart = 10'000;

class Uploads : public testing::Test {
 protected:
  Uploads() {
    ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "very/secret", 1);
    ::unsetenv("AWS_SESSION_TOKEN");
  }
  static void use(const HttpServer& server, int retries = 5) {
    RemoteOptions options;
    options.s3_endpoint = server.url();
    options.part_bytes = kPart;
    options.upload_bytes = 4 * kPart;
    options.retries = retries;
    options.retry_wait = std::chrono::milliseconds(1);
    options.deadline = std::chrono::milliseconds(20'000);
    choose_remote(options);
  }
  static std::unique_ptr<WritableFile> create(const std::string& path) {
    return default_file_system()->create(path);
  }
  /// Appended in pieces of odd sizes.
  static void write(const std::string& path, const std::string& contents) {
    const auto file = create(path);
    std::string_view rest = contents;
    for (std::size_t n = 1; !rest.empty(); n = n * 3 + 1) {
      file->append(as_bytes(rest.substr(0, n)));
      rest.remove_prefix(std::min(n, rest.size()));
    }
    file->commit();
  }
  static std::string held(const HttpServer& server, const std::string& path) {
    const auto object = server.store().find(path);
    return object != nullptr ? object->contents : "nothing";
  }
  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
    return n;
  }

  const TimeLimit limit_{120};
};

TEST_F(Uploads, OfEverySizeArriveAsTheyAre) {
  const HttpServer server(HttpServer::Files{});
  use(server);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPart - 1, kPart, kPart + 1,
                                 2 * kPart, 3 * kPart + 7, 23 * kPart}) {
    const std::string text = noise(size, static_cast<int>(size));
    const std::string key = std::to_string(size);
    write("s3://b/d/" + key, text);
    EXPECT_EQ(held(server, "/b/d/" + key), text) << size;
  }
  EXPECT_EQ(server.store().open_uploads(), 0);
}

TEST_F(Uploads, SmallAndLargeObjects) {
  HttpServerOptions slow;
  slow.latency = std::chrono::milliseconds(5);
  const HttpServer server(HttpServer::Files{}, slow);
  use(server);
  write("s3://b/small", noise(kPart));
  EXPECT_EQ(server.requests(), 1);
  write("s3://b/large", noise(5 * kPart));
  EXPECT_EQ(server.requests(), 1 + 5 + 2);
  EXPECT_GE(server.connections(), 3);
  const std::string log = server.log();
  EXPECT_EQ(count(log, "Content-MD5: "), 7);  // of each that has a body
  EXPECT_EQ(count(log, "content-md5;host;x-amz-content-sha256"), 7);
  EXPECT_THAT(log, Not(HasSubstr("Expect:")));
  EXPECT_THAT(log, Not(HasSubstr("very/secret")));
}

TEST_F(Uploads, AreReadAsTheyWereWrittenLast) {
  const HttpServer server(HttpServer::Files{{"/b/a", "before"}});
  use(server);
  EXPECT_EQ(as_text(default_file_system()->open("s3://b/a")->read_all(100)), "before");
  write("s3://b/a", "after that");
  EXPECT_EQ(as_text(default_file_system()->open("s3://b/a")->read_all(100)), "after that");
}

TEST_F(Uploads, WithoutACommit) {
  const HttpServer server(HttpServer::Files{{"/b/a", "before"}});
  use(server);
  {
    const auto file = create("s3://b/a");
    file->append(as_bytes(noise(6 * kPart)));
    EXPECT_EQ(server.store().open_uploads(), 1);
  }
  { const auto never_begun = create("s3://b/a"); }
  EXPECT_EQ(server.store().open_uploads(), 0);
  EXPECT_EQ(held(server, "/b/a"), "before");
}

TEST_F(Uploads, ArriveWhateverRequestsComeTo) {
  HttpServerOptions options;
  options.fault_every = 5;
  for (int fault = 0; fault < static_cast<int>(kHttpFaultNames.size()); ++fault)
    options.faults.push_back(static_cast<HttpFault>(fault));
  const HttpServer server(HttpServer::Files{}, options);
  use(server);
  for (int i = 0; i < 40; ++i) {
    const std::string text = noise((i % 4) * kPart + 17, i);
    write("s3://b/" + std::to_string(i), text);
    EXPECT_EQ(held(server, "/b/" + std::to_string(i)), text) << i;
  }
  EXPECT_GE(server.faults(), 36);  // each kind three times
  EXPECT_GT(remote_stats().again, 30);
}

TEST_F(Uploads, FailByAnErrorThatSaysWhy) {
  const std::string said[] = {"",
                              "",
                              "without an ETag",
                              "HTTP 206",
                              "without an ETag",
                              "HTTP 403",
                              "HTTP 404",
                              "HTTP 412",
                              "HTTP 429",
                              "HTTP 500",
                              "HTTP 503 Service Unavailable: SlowDown",
                              "page of HTML"};
  for (std::size_t fault = 0; fault < kHttpFaultNames.size(); ++fault) {
    HttpServerOptions options;
    options.fault_every = 1;
    options.faults = {static_cast<HttpFault>(fault)};
    const HttpServer server(HttpServer::Files{{"/b/large", "before"}}, options);
    use(server, 2);
    for (const std::string name : {"small", "large"}) {
      const std::string text = noise(name == "small" ? 100 : 3 * kPart);
      const auto error = thrown_by([&] { write("s3://b/" + name, text); });
      ASSERT_TRUE(error) << kHttpFaultNames[fault];
      EXPECT_THAT(error->what(), HasSubstr("can't write: ")) << kHttpFaultNames[fault];
      EXPECT_THAT(error->what(), HasSubstr("s3://b/" + name));
      if (name == "small") {
        EXPECT_THAT(error->what(), HasSubstr(said[fault]));
      }
      EXPECT_THAT(error->what(), Not(HasSubstr("very/secret")));
      // In full, where the answer alone was lost, or not at all.
      const std::string there = held(server, "/b/" + name);
      EXPECT_TRUE(there == (name == "large" ? "before" : "nothing") || there == text);
    }
  }
}

TEST_F(Uploads, ErrorsWithStatus200) {
  std::string code = "InternalError";
  HttpServerOptions options;
  options.instead = [&](const std::string& method, const std::string& target) -> std::string {
    if (method != "POST" || target.find("uploadId=") == target.npos) return {};
    const std::string body =
        "\n\n<Error><Code>" + code + "</Code><Message>We failed.</Message></Error>";
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  const HttpServer server(HttpServer::Files{}, options);
  use(server, 2);
  for (const std::string name : {"InternalError", "InvalidPart"}) {
    code = name;
    const std::uint64_t before = server.requests();
    const auto error = thrown_by([] { write("s3://b/a", noise(3 * kPart)); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("HTTP 200 with an error: " + name + ": We failed."));
    // Begun, three parts, completed, looked whether it is there after all, aborted.
    const std::uint64_t completed = name == "InternalError" ? 3 : 1;
    EXPECT_EQ(server.requests() - before, 1 + 3 + completed + 3 + 1) << name;
    EXPECT_EQ(held(server, "/b/a"), "nothing");
    EXPECT_EQ(server.store().open_uploads(), 0);
  }
}

TEST_F(Uploads, FailedUpload) {
  HttpServerOptions options;
  options.fault_every = 1;
  options.faults = {HttpFault::forbidden};
  const HttpServer server(HttpServer::Files{}, options);
  use(server, 0);
  const auto file = create("s3://b/a");
  EXPECT_TRUE(thrown_by([&] {
    for (int i = 0; i < 10; ++i) file->append(as_bytes(noise(kPart)));
  }));
  expect_error(ErrorCode::unavailable, "has failed", [&] { file->append(as_bytes(noise(1))); });
  expect_error(ErrorCode::unavailable, "has failed", [&] { file->commit(); });
}

TEST_F(Uploads, AreNotOfPlainHttp) {
  const HttpServer server(HttpServer::Files{});
  use(server);
  expect_error(ErrorCode::invalid_argument, "HTTP has no atomic writes",
               [&] { create(server.url() + "/a?X-Amz-Signature=5ec2e7"); });
  const auto error = thrown_by([&] { create("https://me:passw0rd@h/a?X-Amz-Signature=5ec2e7"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), Not(HasSubstr("5ec2e7")));
  EXPECT_THAT(error->what(), Not(HasSubstr("passw0rd")));
  expect_error(ErrorCode::not_found, "a bucket, not an object", [] { create("s3://b"); });
  expect_error(ErrorCode::invalid_argument, "names a folder", [] { create("s3://b/d/"); });
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(Uploads, GrowingParts) {
  using http::Upload;
  constexpr std::size_t kFirst = 8 << 20;
  EXPECT_EQ(Upload::part_bytes(1, kFirst), kFirst);
  EXPECT_EQ(Upload::part_bytes(2000, kFirst), kFirst);
  EXPECT_EQ(Upload::part_bytes(2001, kFirst), 2 * kFirst);
  EXPECT_EQ(Upload::part_bytes(10'000, kFirst), 16 * kFirst);
  std::uint64_t all = 0;
  for (std::size_t i = 1; i <= 10'000; ++i) all += Upload::part_bytes(i, kFirst);
  EXPECT_GT(all, std::uint64_t{480} << 30);
}

TEST(WritableFiles, OfThisMachineAreThereInFullOrNotAtAll) {
  const TempFolder folder;
  const std::string path = folder.write("a", "before");
  { default_file_system()->create(path)->append(as_bytes(std::string_view("lost"))); }
  EXPECT_EQ(read_file(path), "before");
  const auto file = default_file_system()->create(path);
  file->append(as_bytes(std::string_view("after")));
  expect_error(ErrorCode::unavailable, "is writing the file",
               [&] { default_file_system()->create(path); });
  file->commit();
  EXPECT_EQ(read_file(path), "after");
}

}  // namespace
}  // namespace penstock::test
