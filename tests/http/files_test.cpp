// Files on a server: what is there, what is read, and what becomes of answers that are none.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include <penstock/internal/find_files.h>
#include <penstock/remote_files.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"

namespace penstock::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Options under which a test waits for nothing long.
RemoteOptions quick() {
  RemoteOptions options;
  options.retry_wait = std::chrono::milliseconds(1);
  options.deadline = std::chrono::milliseconds(10'000);
  options.stall = std::chrono::milliseconds(1000);
  options.hedge = false;  // so that requests can be counted
  options.most_request_bytes = 64 << 10;
  return options;
}

class HttpFiles : public testing::Test {
 protected:
  HttpFiles() { choose_remote(quick()); }
  static FileSystem& files() { return *default_file_system(); }
  static std::string read(File& file, std::uint64_t offset, std::size_t size) {
    std::string out(size, '\0');
    file.read_exactly(offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  static Error error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorCode::internal, "none");
  }
};

TEST_F(HttpFiles, AreFoundAndRead) {
  const std::string text = noise(300'000);
  const HttpServer server({{"/d/a b.bin", text}, {"/d/empty", ""}});
  const std::string path = server.url() + "/d/a b.bin";
  const FileInfo info = files().info(path);
  EXPECT_EQ(info.size, text.size());
  EXPECT_NE(version_of(path, info), 0);
  const auto file = files().open(path);
  EXPECT_EQ(file->info(), info);
  EXPECT_EQ(read(*file, 0, text.size()), text);
  EXPECT_EQ(read(*file, 299'990, 10), text.substr(299'990));
  EXPECT_EQ(read(*file, 7, 0), "");
  EXPECT_TRUE(file->unchanged());
  EXPECT_TRUE(file->blocking());
  EXPECT_EQ(files().info(server.url() + "/d/empty").size, 0);
  EXPECT_TRUE(files().open(server.url() + "/d/empty")->read_all(10).empty());
  std::string whole(text.size(), '\0');
  EXPECT_TRUE(files().read_whole(path, info, reinterpret_cast<std::byte*>(whole.data())));
  EXPECT_EQ(whole, text);
  EXPECT_EQ(error_of([&] { read(*file, 299'991, 10); }).code(), ErrorCode::data_loss);
  EXPECT_EQ(error_of([&] { file->read_all(10); }).code(), ErrorCode::out_of_range);
}

TEST_F(HttpFiles, RequestsOfManyReads) {
  const std::string text = noise(1 << 20);
  const HttpServer server({{"/a", text}});
  const auto file = files().open(server.url() + "/a");
  const std::uint64_t before = server.requests();
  std::string out(text.size(), '\0');
  std::vector<ReadRequest> requests;
  for (std::size_t at = 0; at < text.size(); at += 1000)
    requests.push_back({at,
                        std::min<std::size_t>(1000, text.size() - at),
                        reinterpret_cast<std::byte*>(out.data()) + at,
                        {}});
  file->read(requests);
  for (const ReadRequest& request : requests) ASSERT_TRUE(request.status.ok());
  EXPECT_EQ(out, text);
  EXPECT_EQ(server.requests() - before, (1 << 20) / (64 << 10));
  EXPECT_LE(server.connections(), quick().connections);
}

TEST_F(HttpFiles, ReadAheadOfScans) {
  const std::string text = noise(1 << 20);
  const HttpServer server({{"/a", text}});
  const auto file = files().open(server.url() + "/a");
  for (std::size_t at = 0; at + 512 <= text.size(); at += 4096)
    ASSERT_EQ(read(*file, at, 512), text.substr(at, 512)) << at;
  EXPECT_LT(server.requests(), 40);
  // From back to front nothing is read ahead.
  const std::uint64_t before = server.requests();
  for (std::size_t at = 10 * 4096; at > 0; at -= 4096)
    ASSERT_EQ(read(*file, at, 512), text.substr(at, 512)) << at;
  EXPECT_LE(server.requests() - before, 10);
}

TEST_F(HttpFiles, ConcurrentThreads) {
  const std::string text = noise(1 << 20);
  const HttpServer server({{"/a", text}});
  const auto file = files().open(server.url() + "/a");
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 50; ++i) {
          const std::size_t at = (t * 131'071 + i * 20'011) % (text.size() - 3000);
          if (read(*file, at, 3000) != text.substr(at, 3000)) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

class HttpFaults : public HttpFiles, public testing::WithParamInterface<int> {};

TEST_P(HttpFaults, AreDoneAgain) {
  const auto fault = static_cast<HttpFault>(GetParam());
  const std::string text = noise(500'000);
  const HttpServer server({{"/a", text}}, {.fault_every = 7, .faults = {fault}});
  RemoteOptions options = quick();
  options.most_request_bytes = 10'000;
  choose_remote(options);
  for (int round = 0; round < 2; ++round) {
    const auto file = files().open(server.url() + "/a");
    ASSERT_EQ(read(*file, 0, text.size()), text);
    EXPECT_TRUE(file->unchanged());
  }
  EXPECT_GE(server.faults(), 14);
  const RemoteStats stats = remote_stats();
  EXPECT_EQ(stats.requests, server.requests());
  EXPECT_EQ(stats.again, server.faults());
}

TEST_P(HttpFaults, LastingFaults) {
  const auto fault = static_cast<HttpFault>(GetParam());
  const std::map<HttpFault, std::string> words{
      {HttpFault::short_body, "transfer closed"},
      {HttpFault::long_body, "longer than what was asked for"},
      {HttpFault::wrong_range, "of the range 0-0 rather than 1000-"},
      {HttpFault::whole_for_range, "HTTP 200 for a range"},
      {HttpFault::forbidden, "HTTP 403 Forbidden: AccessDenied"},
      {HttpFault::not_found, "was removed since it was found: HTTP 404 Not Found: for the moment"},
      {HttpFault::changed, "has changed since it was found: HTTP 412"},
      {HttpFault::too_many, "HTTP 429"},
      {HttpFault::internal, "HTTP 500 Internal Server Error: oops (6 times)"},
      {HttpFault::slow_down, "HTTP 503 Service Unavailable: SlowDown"},
      {HttpFault::html_page, "an HTML page"}};
  const std::string text = noise(500'000);
  // The first request, which finds it, is answered well.
  const HttpServer good({{"/a", text}});
  HttpServerOptions bad{.fault_every = 1, .faults = {fault}};
  std::atomic<int> first{0};
  bad.instead = [&](const std::string&, const std::string&) -> std::string {
    if (first++ > 0) return {};
    return "HTTP/1.1 206 x\r\nContent-Range: bytes 0-0/500000\r\nETag: " + etag_of(text) +
           "\r\nContent-Length: 1\r\n\r\n" + text.substr(0, 1);
  };
  const HttpServer server({{"/a", text}}, bad);
  const auto file = files().open(server.url() + "/a");
  const Error error = error_of([&] { read(*file, 1000, 1000); });
  if (words.contains(fault)) {
    EXPECT_THAT(error.what(), HasSubstr(words.at(fault)));
  }
  EXPECT_THAT(error.what(), HasSubstr(server.url() + "/a @1000"));
  const bool other = fault == HttpFault::changed || fault == HttpFault::not_found;
  EXPECT_EQ(error.code(), other ? ErrorCode::changed : ErrorCode::unavailable);
}

INSTANTIATE_TEST_SUITE_P(All, HttpFaults, testing::Range(0, 12));

TEST_F(HttpFiles, ChangedFile) {
  HttpServer server({{"/a", noise(100'000, 1)}});
  const auto file = files().open(server.url() + "/a");
  EXPECT_EQ(read(*file, 50'000, 80), noise(100'000, 1).substr(50'000, 80));
  server.replace("/a", noise(100'000, 2));
  const Error error = error_of([&] { read(*file, 80'000, 80); });
  EXPECT_EQ(error.code(), ErrorCode::changed);
  EXPECT_THAT(error.what(), HasSubstr("changed since it was found"));
  EXPECT_FALSE(file->unchanged());
  const FileInfo now = files().info(server.url() + "/a");
  EXPECT_NE(now, file->info());
  EXPECT_EQ(now.size, file->info().size);
}

TEST_F(HttpFiles, ChangedWholeFile) {
  HttpServer server({{"/a", noise(1000, 1)}});
  const std::string path = server.url() + "/a";
  const FileInfo info = files().info(path);
  server.replace("/a", noise(1000, 2));
  std::vector<std::byte> out(1000);
  EXPECT_FALSE(files().read_whole(path, info, out.data()));
}

TEST_F(HttpFiles, WithoutRangesAreReadAsAWhole) {
  const std::string text = noise(50'000);
  const HttpServer server({{"/a", text}}, {.ranges = false});
  const std::string path = server.url() + "/a";
  const FileInfo info = files().info(path);
  std::string out(text.size(), '\0');
  EXPECT_TRUE(files().read_whole(path, info, reinterpret_cast<std::byte*>(out.data())));
  EXPECT_EQ(out, text);
  const auto file = files().open(path);
  EXPECT_THAT(error_of([&] { read(*file, 10, 10); }).what(), HasSubstr("does not support ranges"));
}

TEST_F(HttpFiles, WithoutVersionsAreSaidToBeUnguarded) {
  const LogCapture log;
  const HttpServer server({{"/a", "text"}}, {.etags = false});
  const std::string path = server.url() + "/a";
  EXPECT_EQ(version_of(path, files().info(path)), 0);
  EXPECT_EQ(log.count("gives no versions of its files"), 1);
}

TEST_F(HttpFiles, MissingFile) {
  const HttpServer server({});
  const Error error = error_of([&] { files().info(server.url() + "/none"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_THAT(error.what(), HasSubstr("HTTP 404 Not Found: there is no /none"));
}

TEST_F(HttpFiles, MissingServers) {
  std::string url;
  {
    const HttpServer server({});
    url = server.url();
  }
  const Error error = error_of([&] { files().info(url + "/a"); });
  EXPECT_EQ(error.code(), ErrorCode::unavailable);
}

TEST_F(HttpFiles, RedirectsOnTheServer) {
  const std::string text = noise(5000);
  HttpServerOptions options;
  options.instead = [](const std::string&, const std::string& target) -> std::string {
    if (target == "/old") return "HTTP/1.1 302 x\r\nLocation: new\r\nContent-Length: 0\r\n\r\n";
    if (target == "/circle")
      return "HTTP/1.1 307 x\r\nLocation: /circle\r\nContent-Length: 0\r\n\r\n";
    if (target == "/file")
      return "HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n";
    return {};
  };
  const HttpServer server({{"/new", text}}, options);
  EXPECT_EQ(read(*files().open(server.url() + "/old"), 0, 5000), text);
  EXPECT_THAT(error_of([&] { files().info(server.url() + "/circle"); }).what(),
              HasSubstr("in circles"));
  EXPECT_EQ(error_of([&] { files().info(server.url() + "/file"); }).code(),
            ErrorCode::invalid_argument);
}

TEST_F(HttpFiles, EncodedContents) {
  HttpServerOptions options;
  options.instead = [](const std::string&, const std::string&) {
    return std::string(
        "HTTP/1.1 206 x\r\nContent-Range: bytes 0-0/5\r\nContent-Length: 1\r\n"
        "ETag: \"a\"\r\nContent-Encoding: gzip\r\n\r\nx");
  };
  const HttpServer server({}, options);
  const Error error = error_of([&] { files().info(server.url() + "/a"); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error.what(), HasSubstr("Content-Encoding: gzip"));
}

TEST_F(HttpFiles, EndlessAnswers) {
  for (const bool head : {true, false}) {
    HttpServerOptions options;
    options.instead = [head](const std::string&, const std::string&) {
      return head ? "HTTP/1.1 200 OK\r\n" + std::string(1 << 20, 'X')
                  : "HTTP/1.1 404 x\r\nContent-Length: 99999999999\r\n\r\n" +
                        std::string(1 << 20, 'y');
    };
    const HttpServer server({}, options);
    error_of([&] { files().info(server.url() + "/a"); });
  }
}

TEST_F(HttpFiles, SilentServers) {
  const HttpServer server({{"/a", "text"}}, {.latency = std::chrono::seconds(3)});
  RemoteOptions options = quick();
  options.deadline = std::chrono::milliseconds(300);
  choose_remote(options);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of([&] { files().info(server.url() + "/a"); }).code(), ErrorCode::unavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST_F(HttpFiles, Secrets) {
  const HttpServer server({{"/a", "text"}}, {.fault_every = 1, .faults = {HttpFault::forbidden}});
  const std::string secret =
      "http://me:word@127.0.0.1:" + std::to_string(server.port()) + "/a?X-Amz-Signature=0123abc";
  const std::vector<std::string> found = files().glob(secret);
  ASSERT_EQ(found.size(), 1);
  const Error error = error_of([&] { files().info(found[0]); });
  for (const std::string& text : {found[0], std::string(error.what())}) {
    EXPECT_THAT(text, Not(HasSubstr("0123abc")));
    EXPECT_THAT(text, Not(HasSubstr("word")));
  }
  EXPECT_THAT(server.log(), HasSubstr("GET /a?X-Amz-Signature=0123abc HTTP/1.1"));
  EXPECT_THAT(server.log(), HasSubstr("Authorization: Basic bWU6d29yZA=="));
}

TEST_F(HttpFiles, Lists) {
  const HttpServer server({{"/d/list.txt", "b.tar\na.tar\nc/x.jpg\n"}, {"/d/a.tar", "a"}});
  RemoteOptions options = quick();
  const std::string folder = server.url() + "/d";
  EXPECT_THAT(error_of([&] { files().glob(folder + "/*.tar"); }).what(),
              HasSubstr("HTTP can't list"));
  options.list = folder + "/list.txt";
  choose_remote(options);
  EXPECT_THAT(files().glob(folder + "/*.tar"), ElementsAre(folder + "/a.tar", folder + "/b.tar"));
  EXPECT_THAT(find_files(files(), folder + "/{z,a}.tar"),
              ElementsAre(folder + "/z.tar", folder + "/a.tar"));
  EXPECT_THAT(find_files(files(), folder + "/{z.tar,**/x.*}"),
              ElementsAre(folder + "/z.tar", folder + "/c/x.jpg"));
  EXPECT_TRUE(files().is_directory(folder));
  EXPECT_FALSE(files().is_directory(folder + "/a.tar"));
  EXPECT_THAT(files().list(folder + "/c/"), ElementsAre(folder + "/c/x.jpg"));
  const TempFolder here;
  options.list = here.write("list.txt", folder + "/a.tar\n");
  choose_remote(options);
  EXPECT_THAT(files().glob(server.url() + "/*/a*"), ElementsAre(folder + "/a.tar"));
}

TEST_F(HttpFiles, Patience) {
  const std::string text = noise(400'000);
  const HttpServer server({{"/a", text}}, {.fault_every = 3, .faults = {HttpFault::slow_down}});
  RemoteOptions options = quick();
  options.most_request_bytes = 16'000;
  options.retries = 20;
  choose_remote(options);
  EXPECT_EQ(read(*files().open(server.url() + "/a"), 0, text.size()), text);
  EXPECT_EQ(remote_stats().throttled, server.faults());
  EXPECT_EQ(remote_stats().bytes_needed, text.size());
}

}  // namespace
}  // namespace penstock::test
