// Links to nothing that are given as paths.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

using test::expect_error;

/// A folder with the image "a/1.jpg".
class DanglingLinks : public testing::Test {
 protected:
  DanglingLinks() { folder_.write("a/1.jpg", "1"); }
  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, folder_ / name);
  }

  const test::TempFolder folder_;
};

TEST_F(DanglingLinks, GivenAsAPathSayWhereTheyLead) {
  link("/nowhere/a.tar", "a.tar");
  link("gone.tar", "b.tar");
  link("b.tar", "c.tar");
  struct Case {
    const char* name;
    std::string says;
  };
  const std::vector<Case> cases{
      {"a.tar", (folder_ / "a.tar") + " is a link to /nowhere/a.tar, which is not there"},
      {"b.tar", (folder_ / "b.tar") + " is a link to " + (folder_ / "gone.tar") + ", which"},
      {"c.tar", (folder_ / "c.tar") + " is a link to " + (folder_ / "gone.tar") + ", which"},
      {"d.tar", "no file " + (folder_ / "d.tar")}};
  for (const Case& c : cases) {
    const std::string path = folder_ / c.name;
    expect_error(ErrorCode::not_found, c.says, [&] { (void)make_tar_source({path}, {}); });
    expect_error(ErrorCode::not_found, c.says, [&] { (void)make_npy_source({path}, {}); });
  }
  expect_error(ErrorCode::not_found, "this is a link to /nowhere/a.tar, which is not there",
               [&] { (void)default_file_system()->open(folder_ / "a.tar"); });
  expect_error(ErrorCode::not_found, "this is a link to /nowhere/a.tar, which is not there",
               [&] { (void)default_file_system()->info(folder_ / "a.tar"); });
}

}  // namespace
}  // namespace penstock
