// A worker serves files of one folder: nobody may have it ask a server.
#include <gtest/gtest.h>

#include <unistd.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tools/penstock/run/rooted_files.h"

namespace penstock::test {
namespace {

TEST(RootedFiles, KnowNoServers) {
  const TempFolder folder;
  // Where the path of a URL would be one in the folder.
  ASSERT_EQ(::chdir(folder.path().c_str()), 0);
  const FileSystemPtr files = tool::files_within(default_file_system(), folder.path());
  const std::string url = "http://127.0.0.1:1/a";
  const auto refused = [&](const std::function<void()>& act) {
    expect_error(ErrorCode::not_found, "outside of the folder", act);
  };
  refused([&] { files->open(url); });
  refused([&] { files->info(url); });
  refused([&] { files->is_directory(url); });
  refused([&] { files->list(url); });
  refused([&] { files->glob("http://127.0.0.1:1/{1..3}"); });
  refused([&] { files->read_whole(url, {}, nullptr); });
}

}  // namespace
}  // namespace penstock::test
