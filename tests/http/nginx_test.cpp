// The same of a server that we did not write: nginx, where it is installed.
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <optional>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/web_servers.h"

namespace penstock::test {
namespace {

class NginxFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (Nginx::program().empty())
      GTEST_SKIP() << "NOT TESTED: nginx is not installed (nginx-light)";
    // Who runs this may be root, and nginx then is nobody.
    std::filesystem::permissions(data_.path(), std::filesystem::perms::all);
    RemoteOptions options;
    options.retry_wait = std::chrono::milliseconds(1);
    options.most_request_bytes = 50'000;
    choose_remote(options);
  }

  TempFolder data_;
};

TEST_F(NginxFiles, AreRead) {
  const std::string text = noise(1'000'000);
  data_.write("d/a b+c.bin", text);
  data_.write("empty", "");
  const Nginx nginx(data_.path());
  ASSERT_TRUE(nginx.ready()) << nginx.errors();
  const auto file = default_file_system()->open(nginx.url() + "/d/a b+c.bin");
  EXPECT_EQ(as_text(file->read_all(text.size())), text);
  EXPECT_EQ(file->info().size, text.size());
  EXPECT_EQ(default_file_system()->info(nginx.url() + "/empty").size, 0);
  expect_error(ErrorCode::not_found, "HTTP 404 Not Found: <html>",
               [&] { default_file_system()->info(nginx.url() + "/none"); });
}

TEST_F(NginxFiles, ReplacedFile) {
  data_.write("a", noise(1'000'000, 1));
  const Nginx nginx(data_.path());
  ASSERT_TRUE(nginx.ready()) << nginx.errors();
  const auto file = default_file_system()->open(nginx.url() + "/a");
  std::vector<std::byte> out(10);
  file->read_exactly(500, out);
  data_.write("b", noise(1'000'001, 2));
  std::filesystem::rename(data_ / "b", data_ / "a");
  // It says 412.
  expect_error(ErrorCode::changed, "changed since it was found",
               [&] { file->read_exactly(900'000, out); });
  EXPECT_FALSE(file->unchanged());
}

TEST_F(NginxFiles, CompressedFiles) {
  const std::string text(100'000, 'x');
  data_.write("a.txt", text);
  const Nginx nginx(data_.path(), "gzip on; gzip_types *; gzip_min_length 1;");
  ASSERT_TRUE(nginx.ready()) << nginx.errors();
  EXPECT_EQ(as_text(default_file_system()->open(nginx.url() + "/a.txt")->read_all(200'000)), text);
}

TEST_F(NginxFiles, Redirects) {
  data_.write("a", "text");
  const Nginx nginx(data_.path(),
                    "location /old { return 302 /a; } "
                    "location /away { return 302 http://localhost:$server_port/a; } "
                    "location /file { return 302 file:///etc/passwd; }");
  ASSERT_TRUE(nginx.ready()) << nginx.errors();
  EXPECT_EQ(as_text(default_file_system()->open(nginx.url() + "/old")->read_all(9)), "text");
  EXPECT_EQ(as_text(default_file_system()->open(nginx.url() + "/away")->read_all(9)), "text");
  expect_error(ErrorCode::invalid_argument, "",
               [&] { default_file_system()->info(nginx.url() + "/file"); });
}

}  // namespace
}  // namespace penstock::test
