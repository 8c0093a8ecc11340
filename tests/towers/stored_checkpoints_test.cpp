// Checkpoints in an object store: continuing to the bit, two runs in one folder, what killed ones
// left.
#include "towers/checkpoint/stored_checkpoints.h"

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/time_limit.h"
#include "tests/towers/arrays.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/stored_variables.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::HttpFault;
using penstock::test::HttpServer;
using penstock::test::HttpServerOptions;
using penstock::test::thrown_by;
using test::options_in;
using test::train;

const std::string kFolder = "s3://b/run";

/// S3's list of a store.
HttpServerOptions listing(HttpServer* const* server, HttpServerOptions options = {}) {
  options.instead = [server](const std::string&, const std::string& target) -> std::string {
    if (target.find("list-type=2") == target.npos) return {};
    std::string xml = "<ListBucketResult>";
    for (const auto& [path, object] : (*server)->store().objects())
      xml += "<Contents><Key>" + path.substr(3) + "</Key><Size>" +
             std::to_string(object->contents.size()) + "</Size></Contents>";
    xml += "</ListBucketResult>";
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(xml.size()) + "\r\n\r\n" + xml;
  };
  return options;
}

class CheckpointStore : public testing::Test {
 protected:
  explicit CheckpointStore(const HttpServerOptions& options = {})
      : server_(HttpServer::Files{}, listing(&self_, options)), self_(&server_) {
    ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "very/secret", 1);
    RemoteOptions remote;
    remote.s3_endpoint = server_.url();
    remote.part_bytes = 1000;
    remote.retry_wait = std::chrono::milliseconds(1);
    choose_remote(remote);
  }
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> steps;
    for (const CheckpointFile& file : StoredCheckpoints(kFolder, true).files())
      steps.push_back(file.step);
    return steps;
  }
  std::size_t objects() const { return server_.store().objects().size(); }

  const penstock::test::TimeLimit limit_{300};
  HttpServer server_;
  HttpServer* self_ = nullptr;
};

class FailingCheckpointStore : public CheckpointStore {
 protected:
  FailingCheckpointStore() : CheckpointStore(failing()) {}
  static HttpServerOptions failing() {
    HttpServerOptions options;
    options.fault_every = 4;
    for (int fault = 0; fault < 12; ++fault)
      options.faults.push_back(static_cast<HttpFault>(fault));
    return options;
  }
};

class CarelessCheckpointStore : public CheckpointStore {
 protected:
  CarelessCheckpointStore() : CheckpointStore(careless()) {}
  static HttpServerOptions careless() {
    HttpServerOptions options;
    options.conditions = false;
    return options;
  }
};

TEST_F(CheckpointStore, BitsOfAResumedRun) {
  const auto whole = train(options_in("", 30)).digest;
  train(options_in(kFolder, 17));
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{15, 17}));
  EXPECT_EQ(objects(), 3);  // and their list
  const TrainResult result = train(options_in(kFolder, 30));
  EXPECT_EQ(result.resumed_at, 17U);
  EXPECT_EQ(result.digest, whole);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{25, 30}));
  EXPECT_EQ(objects(), 3);
}

TEST_F(FailingCheckpointStore, GivesTheSameBitsWhateverRequestsComeTo) {
  for (const std::uint64_t stop : {7, 13, 22, 30}) train(options_in(kFolder, stop));
  EXPECT_EQ(StoredRun::read(StoredCheckpoints(kFolder, true).files().back().path).step(), 30U);
  EXPECT_EQ(train(options_in(kFolder, 40)).digest, train(options_in("", 40)).digest);
  EXPECT_GT(server_.faults(), 24);
}

TEST_F(CheckpointStore, TwoConcurrentRuns) {
  StoredCheckpoints first(kFolder, false);
  StoredCheckpoints second(kFolder, false);
  first.add(1, "one", {});
  expect_error(ErrorCode::unavailable, "another run has written it",
               [&] { second.add(2, "two", {}); });
  first.add(3, "three", {});
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(CheckpointStore, UnlistedFile) {
  server_.replace("/b/run/step-000000000099-0123456789abcdef.safetensors", "of a killed run");
  EXPECT_TRUE(steps().empty());
  EXPECT_FALSE(Checkpoints(kFolder, true).newest());
  StoredCheckpoints checkpoints(kFolder, false);
  checkpoints.add(1, "one", {});
  EXPECT_EQ(objects(), 2);
  const std::string path = checkpoints.files()[0].path;
  EXPECT_EQ(read_stored(path), "one");
  checkpoints.add(1, "one again", {});
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(objects(), 2);
  checkpoints.add(2, "two", std::vector{checkpoints.files()[0].path});
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{2}));
}

TEST_F(CheckpointStore, DamagedCheckpoint) {
  train(options_in(kFolder, 17));
  const std::string newest = StoredCheckpoints(kFolder, true).files().back().path;
  server_.replace("/b/run/" + newest.substr(kFolder.size() + 1), "damaged");
  const TrainResult result = train(options_in(kFolder, 20));
  EXPECT_EQ(result.resumed_at, 15U);
  EXPECT_EQ(result.digest, train(options_in("", 20)).digest);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{15, 20}));
}

TEST_F(CheckpointStore, RemovedCheckpoint) {
  train(options_in(kFolder, 17));
  default_file_system()->remove(StoredCheckpoints(kFolder, true).files().back().path);
  EXPECT_EQ(train(options_in(kFolder, 20)).resumed_at, 15U);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{15, 20}));
}

TEST_F(CarelessCheckpointStore, IsRefusedByName) {
  const auto error = thrown_by([] { train(options_in(kFolder, 5)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error->what(), testing::HasSubstr("the store at " + server_.url() + " ignores"));
}

TEST_F(CheckpointStore, OfTrainingTellsItsEnd) {
  write_finished(kFolder, {17, 1, 17});
  EXPECT_EQ(objects(), 1);
  remove_finished(kFolder);
  remove_finished(kFolder);
  EXPECT_EQ(objects(), 0);
}

}  // namespace
}  // namespace penstock::towers
