// Folders, patterns and lists of paths, as every command takes them.
#include <gmock/gmock.h>

#include "tests/support/program.h"
#include "tests/support/tar.h"

namespace penstock::test {
namespace paths_test {

using testing::HasSubstr;
using testing::Not;
using Flags = std::vector<std::string>;

Flags operator+(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// Four images in two classes, and tar shards of two images each.
class Paths : public testing::Test {
 protected:
  Paths() {
    EXPECT_EQ(
        run_program({"synth", photos_, "--images", "4", "--classes", "2", "--size", "32x32"}).code,
        0);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(photos_))
      if (entry.path().extension() == ".jpg") image_ = read_file(entry.path());
    for (const char* name : {"t-000.tar", "t-001.tar", "a,b.tar", "sub/deep/t-002.tar"})
      folder_.write(name,
                    tar_member("x/1.jpg", image_) + tar_member("y/2.jpg", image_) + tar_end());
  }

  static std::int64_t elements(const Flags& flags) { return profile_json(flags)["elements"]; }

  static Outcome train(const std::string& data) {
    return run_program({"train", "--model", "cifar10", "--data", data, "--batch", "2", "--quiet",
                        "--epochs", "1", "--tower-threads", "1", "--json", "-"});
  }

  const TempFolder folder_;
  const std::string photos_ = folder_ / "photos";
  std::string image_;
};

TEST_F(Paths, HiddenFiles) {
  folder_.write("photos/.ipynb_checkpoints/1.jpg", image_);
  folder_.write("photos/class_0/._1.jpg", "mac");
  folder_.write("photos/class_0/.DS_Store", "mac");
  for (const Flags& flags : {Flags{"--images", photos_}, Flags{photos_}}) {
    EXPECT_EQ(elements(flags), 4);
    EXPECT_EQ(elements(flags + Flags{"--hidden"}), 6);
  }
  const Outcome inspected = run_program({"inspect", photos_});
  EXPECT_THAT(inspected.out, HasSubstr("2 classes: class_0, class_1"));
  EXPECT_THAT(inspected.err, HasSubstr("3 hidden files are skipped"));
  EXPECT_THAT(run_program({"inspect", photos_, "--hidden"}).out, HasSubstr("3 classes: .ipynb"));
  EXPECT_EQ(run_program({"verify", photos_}).code, 0);
  EXPECT_THAT(run_program({"verify", photos_, "--hidden"}).out, HasSubstr("5 good, 1 bad"));
}

TEST_F(Paths, ClassFolders) {
  const TempFolder tiny;
  for (const char* name : {"n01/images/1.jpg", "n01/images/2.jpg", "n02/images/1.jpg"})
    tiny.write(name, image_);
  const std::string both =
      "makes 2 classes; by its parent folder there would be 1 class (choose by --label-depth 1";
  const std::string one = "all 3 images have one class, \"images\"";
  const std::string packed = tiny / "x.pnr";
  for (const Flags& flags :
       {Flags{"profile", "--images", tiny.path()},
        Flags{"pack", "--images", tiny.path(), "--jpeg", "indexed", "--out", packed},
        Flags{"train", "--model", "cifar10", "--data", tiny.path(), "--batch", "1", "--max-steps",
              "1", "--tower-threads", "1"}}) {
    EXPECT_THAT(run_program(flags).err, HasSubstr(both)) << flags[0];
    EXPECT_THAT(run_program(flags + Flags{"--label-depth", "0"}).err, HasSubstr(one)) << flags[0];
    const Outcome chosen = run_program(flags + Flags{"--label-depth", "1"});
    EXPECT_EQ(chosen.code, 0) << chosen.err;
    EXPECT_THAT(chosen.err, Not(HasSubstr("class"))) << flags[0];
  }
  EXPECT_THAT(run_program({"inspect", packed}).out, HasSubstr("2 classes: n01, n02"));
}

TEST_F(Paths, PatternsInEveryCommand) {
  const std::string braces = folder_ / "t-{000..001}.tar";
  const std::string below = folder_ / "**/t-*.tar";
  EXPECT_EQ(elements({"--tar", braces}), 4);
  EXPECT_EQ(elements({"--tar", below}), 6);
  EXPECT_EQ(elements({braces}), 4) << "a path without a flag";
  EXPECT_EQ(elements({"--images", photos_ + "/{class_1,class_0}/*"}), 4);
  EXPECT_EQ(elements({"--images", photos_ + "/class_{0,1}"}), 4) << "folders";
  EXPECT_EQ(elements({photos_ + "/**/*.jpg"}), 4);
  for (const char* command : {"inspect", "verify"}) {
    const Outcome outcome = run_program({command, braces, "--json", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(outcome.out.starts_with('[') ? "t-001" : "4"));
  }
  EXPECT_EQ(run_program({"pack", "--images", photos_ + "/{class_0,class_1}/*.jpg", "--jpeg",
                         "indexed", "--out", folder_ / "x.pnr", "--json", "-"})
                .json()["records"],
            4);
  const Outcome trained = train(braces + "," + below);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.json()["images"], 10);
  const Outcome missing = run_program({"profile", "--tar", folder_ / "t-{000..002}.tar"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("t-002.tar"));
}

TEST_F(Paths, CommasInPaths) {
  EXPECT_EQ(elements({"--tar", folder_ / "a,b.tar"}), 2);
  for (const auto& [data, images] : std::vector<std::pair<std::string, int>>{
           {folder_ / "a,b.tar", 2},
           {(folder_ / "t-000.tar") + "," + (folder_ / "a,b.tar"), 4},
           {(folder_ / "a,b.tar") + "," + (folder_ / "t-*.tar"), 6},
           {folder_ / "a,?.tar", 2}}) {
    const Outcome outcome = train(data);
    ASSERT_EQ(outcome.code, 0) << data << outcome.err;
    EXPECT_EQ(outcome.json()["images"], images) << data;
  }
  ASSERT_EQ(run_program({"synth", folder_ / "idx", "--images", "6", "--format", "idx"}).code, 0);
  std::string pair;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "idx")) {
    const bool labels = entry.path().string().find("labels") != std::string::npos;
    const std::string name = folder_ / (labels ? "1,labels-idx1" : "0,images-idx3");
    std::filesystem::rename(entry.path(), name);
    pair = labels ? (pair.empty() ? "," : pair + ",") + name : name + pair;
  }
  EXPECT_EQ(elements({"--idx", pair}), 6) << pair;
}

TEST_F(Paths, DanglingLinks) {
  std::filesystem::create_symlink("/nowhere/bird", photos_ + "/bird");
  const std::string listed = "1 of 5 files is listed but does not exist, such as a dangling link: ";
  for (const Flags& flags :
       {Flags{"profile", photos_}, Flags{"profile", "--images", photos_}, Flags{"explain", photos_},
        Flags{"verify", photos_}, Flags{"inspect", photos_},
        Flags{"pack", "--images", photos_, "--jpeg", "indexed", "--out", folder_ / "x.pnr"}}) {
    const Outcome outcome = run_program(flags);
    EXPECT_NE(outcome.code, 0) << flags[0];
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(listed + photos_ + "/bird")) << flags[0];
  }
  EXPECT_EQ(elements({"--images", photos_ + "/*/*.jpg"}), 4);
  const std::string link = folder_ / "c.tar";
  std::filesystem::create_symlink("/nowhere/c.tar", link);
  for (const Flags& flags : {Flags{"--tar", link}, Flags{"--images", link}, Flags{link}}) {
    const Outcome outcome = run_program(Flags{"profile"} + flags);
    EXPECT_EQ(outcome.code, 1) << flags[0];
    EXPECT_THAT(outcome.err, HasSubstr("is a link to /nowhere/c.tar, which does not exist"));
    EXPECT_THAT(outcome.err, HasSubstr(link));
  }
}

TEST_F(Paths, UnwritableIndex) {
  const std::string large(5 << 20, 'x');  // smaller shards have no index file
  for (const char* name : {"large/0.tar", "large/1.tar"})
    folder_.write(name, tar_member("x/1.jpg", large) + tar_end());
  Program program({"profile", "--tar", folder_ / "large/*.tar", "--quiet"}, {},
                  {"PENSTOCK_INDEX_DIR=/proc/nope"});
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t said = outcome.err.find("warning: can't write /proc/nope/");
  EXPECT_NE(said, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("can't write", said + 20), std::string::npos) << outcome.err;
}

}  // namespace paths_test
}  // namespace penstock::test
