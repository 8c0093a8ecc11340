// States in stores: whole, one writer's, and only where a store keeps conditions.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>

#include <penstock/remote_files.h>
#include <penstock/state_file.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;

const std::string kPath = "s3://b/run/state";

class SharedStates : public testing::Test {
 protected:
  SharedStates() {
    ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "very/secret", 1);
    ::unsetenv("AWS_SESSION_TOKEN");
  }
  static void use(const HttpServer& server, int retries = 5) {
    RemoteOptions options;
    options.s3_endpoint = server.url();
    options.retries = retries;
    options.retry_wait = std::chrono::milliseconds(1);
    options.deadline = std::chrono::milliseconds(20'000);
    choose_remote(options);
  }

  const TimeLimit limit_{120};
};

TEST_F(SharedStates, AreReadAsTheyWereSaved) {
  const HttpServer server(HttpServer::Files{});
  use(server);
  EXPECT_EQ(load_state(kPath), std::nullopt);
  save_state(kPath, "one");
  EXPECT_EQ(load_state(kPath), "one");
  StateFile file(kPath);
  file.check();
  for (int i = 0; i < 5; ++i) {
    file.save(noise(1000, i));
    EXPECT_EQ(load_state(kPath), noise(1000, i));
  }
  EXPECT_EQ(file.path(), kPath);
  EXPECT_EQ(server.store().objects().size(), 1);  // nothing beside it
  EXPECT_TRUE(companions_of_state(kPath).empty());
}

TEST_F(SharedStates, TwoConcurrentRuns) {
  const HttpServer server(HttpServer::Files{});
  use(server);
  for (int round = 0; round < 2; ++round) {  // without an object, and with one
    StateFile first(kPath);
    StateFile second(kPath);
    first.check();
    second.check();
    const std::string text = "first of " + std::to_string(round);
    first.save(text);
    expect_error(ErrorCode::unavailable, "another run has written it",
                 [&] { second.save("second"); });
    EXPECT_EQ(load_state(kPath), text);
    first.save(text + " again");
    expect_error(ErrorCode::unavailable, "another run has written it",
                 [&] { second.save("second"); });
    EXPECT_EQ(load_state(kPath), text + " again");
  }
}

TEST_F(SharedStates, StoreThatIgnoresConditions) {
  HttpServerOptions options;
  options.conditions = false;
  HttpServer server(HttpServer::Files{}, options);
  use(server);
  {
    StateFile file(kPath);
    const auto error = thrown_by([&] { file.check(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error->what(), HasSubstr("the store at " + server.url() + " ignores conditional"));
    EXPECT_THAT(error->what(), HasSubstr(kPath));
  }
  EXPECT_TRUE(server.store().objects().empty());
  // Also where nobody asked beforehand, by what the first write comes to.
  expect_error(ErrorCode::invalid_argument, "ignores conditional",
               [] { save_state(kPath, "one"); });
  const std::string before = server.store().find("/b/run/state")->contents;
  StateFile file(kPath);
  expect_error(ErrorCode::invalid_argument, "ignores conditional", [&] { file.check(); });
  EXPECT_EQ(server.store().find("/b/run/state")->contents, before);
}

TEST_F(SharedStates, StoreWithoutConditions) {
  HttpServerOptions options;
  options.instead_of = [](const std::string& head) -> std::string {
    if (head.find("If-") == head.npos) return {};
    return "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n";
  };
  const HttpServer server(HttpServer::Files{}, options);
  use(server);
  StateFile file(kPath);
  expect_error(ErrorCode::invalid_argument, "ignores conditional", [&] { file.check(); });
}

TEST_F(SharedStates, AreWholeWhateverRequestsComeTo) {
  HttpServerOptions options;
  options.fault_every = 4;
  for (int fault = 0; fault < static_cast<int>(kHttpFaultNames.size()); ++fault)
    options.faults.push_back(static_cast<HttpFault>(fault));
  const HttpServer server(HttpServer::Files{}, options);
  use(server);
  StateFile file(kPath);
  std::string last;
  for (int i = 0; i < 50; ++i) {
    file.save(noise(300, i));
    last = noise(300, i);
    EXPECT_EQ(load_state(kPath), last);
  }
  EXPECT_GT(server.faults(), 24);  // each kind twice
}

TEST_F(SharedStates, LostAnswer) {
  HttpServer* self = nullptr;
  bool lose = false;
  HttpServerOptions options;
  options.instead_of = [&](const std::string& head) -> std::string {
    const std::size_t mark = head.find("x-amz-meta-penstock-write: ");
    if (!lose || mark == head.npos) return {};
    self->replace("/b/run/state", "written",
                  head.substr(mark + 27, head.find('\r', mark) - mark - 27));
    return "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
  };
  HttpServer server(HttpServer::Files{}, options);
  self = &server;
  use(server, 1);
  StateFile file(kPath);
  file.save("one");
  lose = true;
  EXPECT_TRUE(thrown_by([&] { file.save("two"); }));
  lose = false;
  file.save("three");
  EXPECT_EQ(load_state(kPath), "three");
}

TEST_F(SharedStates, DamagedAndForeignStates) {
  const HttpServer server(HttpServer::Files{{"/b/run/state", "something else"}});
  use(server);
  const auto error = thrown_by([] { load_state(kPath); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::data_loss);
  EXPECT_THAT(error->what(), HasSubstr(kPath));
  expect_error(ErrorCode::invalid_argument, "HTTP has no atomic writes",
               [&] { save_state(server.url() + "/x", "one"); });
}

}  // namespace
}  // namespace penstock::test
