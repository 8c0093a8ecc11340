// Links to nothing: below a folder of images, and given as a path.
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

TEST_F(DanglingLinks, AreNamedWithTheWayToContinue) {
  const std::string find = " (find " + folder_.path() + "/ -xtype l -delete)";
  const std::string pattern = ", or name the others by a pattern";
  const auto refused = [&](const std::string& message) {
    try {
      (void)make_images_source(folder_.path(), {});
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_EQ(error.cause(), message);
    }
  };
  link("gone.jpg", "a/2.jpg");
  refused("1 of 2 files is listed but does not exist, such as a dangling link: " +
          (folder_ / "a/2.jpg") + "; remove it" + find + pattern);
  // A class whose disk is not mounted.
  link("/nowhere/bird", "bird");
  refused("2 of 3 files are listed but do not exist, such as dangling links: " +
          (folder_ / "a/2.jpg") + ", " + (folder_ / "bird") + "; remove them" + find + pattern);
  std::filesystem::remove(folder_ / "a/2.jpg");
  refused("1 of 2 files is listed but does not exist, such as a dangling link: " +
          (folder_ / "bird") + "; remove it" + find + pattern);
  std::filesystem::remove(folder_ / "a/1.jpg");
  refused("1 of 1 file is listed but does not exist, such as a dangling link: " +
          (folder_ / "bird") + "; remove it" + find);
}

TEST_F(DanglingLinks, AreNoErrorWhereTheyAreHiddenOrNoPatternMatchesThem) {
  link("/nowhere", ".bird");
  folder_.write("a/1.txt", "not a link");
  EXPECT_EQ(make_images_source(folder_.path(), {})->size(), 1U);
  ImagesOptions all;
  all.hidden = true;
  EXPECT_THROW((void)make_images_source(folder_.path(), all), Error);
  link("/nowhere/bird", "bird");
  EXPECT_EQ(make_images_source(folder_ / "*/*.jpg", {})->size(), 1U);
  std::filesystem::remove(folder_ / "bird");
  std::filesystem::create_directory(folder_ / "mounted");
  folder_.write("mounted/2.jpg", "2");
  link("mounted", "bird");
  EXPECT_EQ(make_images_source(folder_.path(), {})->size(), 3U) << "links to folders are followed";
}

TEST_F(DanglingLinks, GivenAsAPathSayWhereTheyLead) {
  link("/nowhere/a.tar", "a.tar");
  link("gone.tar", "b.tar");
  link("b.tar", "c.tar");
  struct Case {
    const char* name;
    std::string says;
  };
  const std::vector<Case> cases{
      {"a.tar", (folder_ / "a.tar") + " is a link to /nowhere/a.tar, which does not exist"},
      {"b.tar", (folder_ / "b.tar") + " is a link to " + (folder_ / "gone.tar") + ", which"},
      {"c.tar", (folder_ / "c.tar") + " is a link to " + (folder_ / "gone.tar") + ", which"},
      {"d.tar", "no such file or folder: " + (folder_ / "d.tar")}};
  for (const Case& c : cases) {
    const std::string path = folder_ / c.name;
    expect_error(ErrorCode::not_found, c.says, [&] { (void)make_tar_source({path}, {}); });
    expect_error(ErrorCode::not_found, c.says, [&] { (void)make_images_source(path, {}); });
    expect_error(ErrorCode::not_found, c.says, [&] { (void)make_npy_source({path}, {}); });
  }
  expect_error(ErrorCode::not_found, "this is a link to /nowhere/a.tar, which does not exist",
               [&] { (void)default_file_system()->open(folder_ / "a.tar"); });
  expect_error(ErrorCode::not_found, "this is a link to /nowhere/a.tar, which does not exist",
               [&] { (void)default_file_system()->info(folder_ / "a.tar"); });
}

}  // namespace
}  // namespace penstock
