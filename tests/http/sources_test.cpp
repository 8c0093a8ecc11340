// Every source reads the same from a server as from memory, whatever the server does wrong in
// between, and refuses what is not what it was.
#include <gtest/gtest.h>

#include <penstock/remote_files.h>

#include "tests/conformance/source_suite.h"
#include "tests/support/context.h"
#include "tests/support/errors.h"
#include "tests/support/http_server.h"

namespace penstock {
namespace {

using test::HttpFault;
using test::HttpServer;
using test::read_source;
using test::ReadOutcome;
using test::SourceCase;

constexpr std::size_t kRecords = 11;

class HttpSources : public test::SourceSuite {
 protected:
  void SetUp() override {
    if (!GetParam().files) GTEST_SKIP() << "reads no files";
    expected_ = text_of(*open(kRecords));
    EXPECT_EQ(expected_.size(), kRecords);
  }
  static std::vector<std::string> text_of(const Source& source) {
    std::vector<std::string> texts;
    for (const ReadOutcome& outcome : read_source(source))
      texts.push_back(outcome.error ? std::string("error: ") + outcome.error->what()
                                    : outcome.text());
    return texts;
  }
  HttpServer::Files served() const {
    HttpServer::Files files;
    std::string list;
    for (const auto& [path, contents] : contents_) {
      files["/" + path] = contents;
      list += path + "\n";
    }
    files["/list.txt"] = list;
    return files;
  }
  /// `ahead`: what was read for the index may serve records.
  static void use(const HttpServer& server, bool ahead = true) {
    RemoteOptions options;
    if (!ahead) options.read_ahead_bytes = 0;
    options.list = server.url() + "/list.txt";
    options.retry_wait = std::chrono::milliseconds(1);
    options.most_request_bytes = 1000;
    choose_remote(options);
  }
  SourcePtr open_at(const HttpServer& server) {
    return open_with(default_file_system(), server.url());
  }

  std::vector<std::string> expected_;
};

TEST_P(HttpSources, GiveTheSameRecords) {
  const HttpServer server(served());
  use(server);
  const SourcePtr source = open_at(server);
  EXPECT_EQ(text_of(*source), expected_);
  if (source->size()) {
    EXPECT_EQ(source->blocking(), !GetParam().loads);
  }
}

TEST_P(HttpSources, GiveTheSameRecordsWhateverFails) {
  std::vector<HttpFault> faults;
  for (int i = 0; i < 12; ++i) faults.push_back(static_cast<HttpFault>(i));
  const HttpServer server(served(), {.fault_every = 3, .faults = faults});
  use(server);
  EXPECT_EQ(text_of(*open_at(server)), expected_);
  EXPECT_GT(server.faults(), 0);
}

TEST_P(HttpSources, AreTheSameAsLongAsTheirETagsAre) {
  HttpServer server(served());
  use(server);
  const auto description = [&] {
    Description text;
    open_at(server)->describe(text);
    std::string all;
    for (const auto& [key, value] : text.entries()) all += key + "=" + value + "\n";
    return all;
  };
  const std::string before = description();
  EXPECT_EQ(description(), before);
  // The same bytes under another ETag: nobody can know that they are.
  for (auto& [path, contents] : contents_) {
    if (path == "folder/readme") continue;
    contents.back() = static_cast<char>(contents.back() ^ 1);
    server.replace("/" + path, contents);
    break;
  }
  std::string after;
  try {
    after = description();
  } catch (const Error&) {
    return;  // it does not even open any more
  }
  EXPECT_NE(after, before);
}

TEST_P(HttpSources, RefuseWhatChanges) {
  if (GetParam().loads) GTEST_SKIP() << "has read everything when it is opened";
  HttpServer server(served());
  use(server, false);
  const SourcePtr source = open_at(server);
  for (const auto& [path, contents] : contents_)
    server.replace("/" + path, std::string(contents.size(), 'x'));
  std::size_t failed = 0;
  for (const ReadOutcome& outcome : read_source(*source)) {
    if (!outcome.error) continue;
    ++failed;
    EXPECT_EQ(outcome.error->code(), ErrorCode::changed) << outcome.error->what();
  }
  // A stream ends a shard with one error.
  EXPECT_GE(failed, source->size() ? kRecords : contents_.size());
}

INSTANTIATE_TEST_SUITE_P(All, HttpSources, testing::ValuesIn(test::sources()),
                         test::SourceSuite::name_of);

}  // namespace
}  // namespace penstock
