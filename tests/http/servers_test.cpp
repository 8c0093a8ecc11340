// Every source over servers of other projects, and over one with the oddities of many: the records
// are those of local files, or there is an error that says why.
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include <gmock/gmock.h>

#include <penstock/remote_files.h>

#include "pipeline/io/memory.h"
#include "pipeline/stage/node.h"
#include "tests/conformance/sources.h"
#include "tests/support/aws_environment.h"
#include "tests/support/context.h"
#include "tests/support/http_server.h"
#include "tests/support/time_limit.h"
#include "tests/support/web_servers.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t kRecords = 23;
constexpr std::uint64_t kMostRequests = 6;  // of each read, for an error that no retry would mend

/// The files of a source, and what it makes of them.
struct Stored {
  SourceCase tested;
  std::string folder;
  std::map<std::string, std::string> files{};  // by path
  std::vector<std::string> expected{};         // records
};

/// Opens the source on the files below `root`, and returns its records. Throws the first error.
std::vector<std::string> records_of(const Stored& stored, const FileSystemPtr& files,
                                    const std::string& root) {
  SourceInput input;
  input.files = files;
  input.folder = root + stored.folder + "/";
  for (std::size_t i = 0; i < kRecords; ++i) input.records.push_back(stored.tested.record(i));
  for (const auto& [path, bytes] : stored.files) input.paths.push_back(root + path);
  const SourcePtr source = stored.tested.open(input).node()->source();
  std::vector<std::string> texts;
  for (const ReadOutcome& outcome : read_source(*source)) {
    if (outcome.error) throw Error(*outcome.error);
    texts.push_back(outcome.text());
  }
  return texts;
}

std::vector<Stored> all_stored() {
  std::vector<Stored> all;
  for (const SourceCase& tested : sources()) {
    if (!tested.files) continue;
    Stored stored{.tested = tested, .folder = tested.name};
    std::erase_if(stored.folder, [](char c) { return c == ' ' || c == ','; });
    std::vector<std::string> records;
    for (std::size_t i = 0; i < kRecords; ++i) records.push_back(tested.record(i));
    const auto files = std::make_shared<MemoryFileSystem>();
    for (const auto& [path, bytes] : tested.files(records, kNone)) {
      stored.files[stored.folder + "/" + path] = bytes;
      files->add(stored.folder + "/" + path, bytes);
    }
    stored.expected = records_of(stored, files, "");
    all.push_back(std::move(stored));
  }
  return all;
}

/// Sources that read each of these files in one piece.
const std::set<std::string>& whole_readers() {
  static const std::set<std::string> names{"images", "cifar10", "text_lines"};
  return names;
}

/// Files whose names or contents are treated specially by some servers and clients.
const std::map<std::string, std::string>& odd_files() {
  static const std::map<std::string, std::string> files = {
      {"odd/a [b] {c}.txt", "brackets and braces"},
      {"odd/a+b c&d=e,f;g@h!$'()*~.txt", "reserved characters"},
      {"odd/\u00e4\u4e16.txt", "letters beyond ASCII"},
      {"odd/empty", ""},
      {"odd/packed.gz", "\x1f\x8b\x08 bytes of a .gz file, which stay what they are"},
  };
  return files;
}

/// Returns the contents of a file.
std::string contents_of(const std::string& path) {
  const std::shared_ptr<File> file = default_file_system()->open(path);
  std::string bytes(file->info().size, '\0');
  file->read_exactly(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// Returns whether a text shows bytes of one of the files.
bool shows_bytes(const std::string& text, const Stored& stored) {
  constexpr std::size_t kSlice = 16;
  for (const auto& [path, bytes] : stored.files)
    for (std::size_t at = 0; at + kSlice <= bytes.size(); ++at)
      if (text.find(bytes.substr(at, kSlice)) != text.npos) return true;
  return false;
}

class Servers : public testing::Test {
 protected:
  ~Servers() override { choose_remote({}); }

  static RemoteOptions options() {
    RemoteOptions options;
    options.retry_wait = std::chrono::milliseconds(1);
    return options;
  }
  /// Returns all files, and a list of their names.
  static HttpServer::Files served() {
    HttpServer::Files files;
    for (const Stored& stored : all())
      for (const auto& [path, bytes] : stored.files) {
        files["/" + path] = bytes;
        files["/list.txt"] += path + "\n";
      }
    for (const auto& [path, bytes] : odd_files()) files["/" + path] = bytes;
    return files;
  }
  static const std::vector<Stored>& all() {
    static const std::vector<Stored> all = all_stored();
    return all;
  }
  static void write_all_to(const TempFolder& folder) {
    for (const auto& [path, bytes] : served()) folder.write(path.substr(1), bytes);
    std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  }
  static void expect_all_equal(const std::string& root) {
    for (const Stored& stored : all()) {
      try {
        EXPECT_EQ(records_of(stored, default_file_system(), root), stored.expected)
            << stored.folder;
      } catch (const std::exception& error) {
        ADD_FAILURE() << stored.folder << ": " << error.what();
      }
    }
    for (const auto& [path, bytes] : odd_files()) {
      try {
        EXPECT_EQ(contents_of(root + path), bytes) << path;
      } catch (const std::exception& error) {
        ADD_FAILURE() << path << ": " << error.what();
      }
    }
  }
  /// Checks that reading each source fails with a code and a text, that the error shows no bytes
  /// of the files, and that it comes soon: the server gets few requests for it.
  static void expect_errors(const HttpServer& server, ErrorCode code, const std::string& text) {
    for (const Stored& stored : all()) {
      SCOPED_TRACE(stored.folder);
      const std::uint64_t before = server.requests();
      try {
        records_of(stored, default_file_system(), server.url() + "/");
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(text));
        EXPECT_FALSE(shows_bytes(error.what(), stored)) << error.what();
      }
      EXPECT_LE(server.requests() - before, kMostRequests * (stored.files.size() + kRecords));
    }
  }
  /// Checks that files which are read whole are equal, and that the rest is an error which says
  /// that the server has no ranges, and shows nothing of them.
  static void expect_only_whole(const std::string& root) {
    for (const Stored& stored : all()) {
      std::string failed;
      try {
        EXPECT_EQ(records_of(stored, default_file_system(), root), stored.expected)
            << stored.folder;
      } catch (const Error& error) {
        failed = error.what();
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      }
      if (whole_readers().contains(stored.folder)) {
        EXPECT_EQ(failed, "") << stored.folder;
      } else {
        EXPECT_THAT(failed, HasSubstr("does not support ranges")) << stored.folder;
        EXPECT_FALSE(shows_bytes(failed, stored)) << failed;
      }
    }
  }
  static void use(const std::string& url, RemoteOptions options) {
    options.list = url + "/list.txt";
    choose_remote(options);
  }

  const TimeLimit limit_{120};
};

TEST_F(Servers, OfNginx) {
  if (Nginx::program().empty()) GTEST_SKIP() << "NOT TESTED: nginx is not installed (nginx-light)";
  const TempFolder data;
  write_all_to(data);
  const Nginx server(data.path());
  ASSERT_TRUE(server.ready()) << server.errors();
  use(server.url(), options());
  expect_all_equal(server.url() + "/");
}

TEST_F(Servers, OfLighttpd) {
  if (Lighttpd::program().empty()) GTEST_SKIP() << "NOT TESTED: lighttpd is not installed";
  const TempFolder data;
  write_all_to(data);
  const Lighttpd server(data.path());
  ASSERT_TRUE(server.ready()) << server.errors();
  use(server.url(), options());
  expect_all_equal(server.url() + "/");
}

TEST_F(Servers, OfApache) {
  if (Apache::program().empty()) GTEST_SKIP() << "NOT TESTED: apache2-bin is not installed";
  const TempFolder data;
  write_all_to(data);
  const Apache server(data.path());
  ASSERT_TRUE(server.ready()) << server.errors();
  use(server.url(), options());
  expect_all_equal(server.url() + "/");
}

TEST_F(Servers, OfPython) {
  if (PythonServer::program().empty()) GTEST_SKIP() << "NOT TESTED: python3 is not installed";
  const TempFolder data;
  write_all_to(data);
  const PythonServer server(data.path());
  ASSERT_TRUE(server.ready());
  use(server.url(), options());
  expect_only_whole(server.url() + "/");
}

TEST_F(Servers, OfMoto) {
  if (Moto::program().empty())
    GTEST_SKIP() << "NOT TESTED: no moto_server in $PATH or as $PENSTOCK_MOTO (moto[server] of "
                    "PyPI)";
  const Moto server;
  if (!server.make_bucket()) GTEST_SKIP() << "NOT TESTED: moto_server does not start";
  const AwsEnvironment environment;
  AwsEnvironment::set("AWS_ACCESS_KEY_ID", "AKEXAMPLE");
  AwsEnvironment::set("AWS_SECRET_ACCESS_KEY", "very/secret");
  RemoteOptions s3 = options();
  s3.s3_endpoint = server.url();
  choose_remote(s3);
  for (const auto& [path, bytes] : served()) {
    const auto file = default_file_system()->create("s3://bucket" + path);
    file->append(as_bytes(bytes));
    file->commit();
  }
  expect_all_equal("s3://bucket/");
  s3.s3_endpoint = "http://localhost:" + std::to_string(server.port());
  s3.s3_addressing = "virtual";  // bucket.localhost
  choose_remote(s3);
  expect_all_equal("s3://bucket/");
}

struct Mode {
  const char* name;
  std::function<HttpServerOptions()> options;
};

HttpServerOptions with_encoding(const char* encoding) {
  return {.headers = [encoding](const std::string&) {
    return std::string("Content-Encoding: ") + encoding + "\r\n";
  }};
}

TEST_F(Servers, WithOddities) {
  const std::vector<Mode> table = {
      {"aws-chunked", [] { return with_encoding("aws-chunked"); }},
      {"identity", [] { return with_encoding("identity"); }},
      {"binary", [] { return with_encoding("Binary"); }},
      {"utf-8", [] { return with_encoding("utf-8"); }},
      {"no encoding", [] { return with_encoding(""); }},
      {"two of them", [] { return with_encoding("aws-chunked, identity"); }},
      {"412 to its own ETags", [] { return HttpServerOptions{.matches = false}; }},
      {"no ETags", [] { return HttpServerOptions{.etags = false}; }},
      {"gzip of a .gz file",
       [] {
         return HttpServerOptions{.headers = [](const std::string& target) {
           return std::string(target.ends_with(".gz") ? "Content-Encoding: gzip\r\n" : "");
         }};
       }},
  };
  for (const Mode& mode : table) {
    SCOPED_TRACE(mode.name);
    const HttpServer server(served(), mode.options());
    use(server.url(), options());
    expect_all_equal(server.url() + "/");
  }
}

// Pace and SendRate are tested for the rate of a server with a limit, by a clock of their own.
TEST_F(Servers, Throttling) {
  const HttpServer server(
      served(), {.fault_every = 10, .faults = {HttpFault::slow_down, HttpFault::too_many}});
  use(server.url(), RemoteOptions());  // tries again for long enough
  expect_all_equal(server.url() + "/");
  EXPECT_GT(server.faults(), 0U);
}

TEST_F(Servers, WithSeveralETagsForOneObject) {
  const HttpServer server(served(), {.etags_differ = true});
  RemoteOptions trusting = options();
  trusting.trust_dates = true;
  use(server.url(), trusting);
  expect_all_equal(server.url() + "/");
  use(server.url(), options());
  expect_errors(server, ErrorCode::changed, "--trust-data");
}

TEST_F(Servers, WithoutRanges) {
  for (const bool chunked : {false, true}) {
    const HttpServer server(served(), {.ranges = false, .chunked = chunked});
    use(server.url(), options());
    expect_only_whole(server.url() + "/");
  }
}

TEST_F(Servers, Redirects) {
  const HttpServer there(served());
  for (const std::string& host : {std::string("localhost"), std::string("127.0.0.1")}) {
    for (const int hops : {1, 5, 6}) {
      SCOPED_TRACE(host + ", " + std::to_string(hops) + " hops");
      const HttpServer here(
          {}, {.instead = [&](const std::string&, std::string target) {
            int done = 1;  // "/hop3/path" has come two hops
            if (target.starts_with("/hop")) {
              done = target[4] - '0';
              target.erase(0, 5);
            }
            return "HTTP/1.1 302 x\r\nLocation: " +
                   (done == hops ? "http://" + host + ":" + std::to_string(there.port()) + target
                                 : "/hop" + std::to_string(done + 1) + target) +
                   "\r\nContent-Length: 0\r\n\r\n";
          }});
      use(here.url(), options());
      if (hops <= 5) {
        expect_all_equal(here.url() + "/");
        continue;
      }
      expect_errors(here, ErrorCode::invalid_argument, "in circles");
    }
  }
}

}  // namespace
}  // namespace penstock::test
