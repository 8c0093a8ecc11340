// Shards and the descriptors that they take: FAULTS F9.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include <penstock/sources.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/posix.h"
#include "pipeline/sources/shards.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

TEST(Shards, KeepsFewFilesOpen) {
  const test::TempFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 30; ++i) paths.push_back(folder.write(std::to_string(i), std::to_string(i)));
  const auto faults = std::make_shared<FaultFileSystem>(default_file_system(), FaultOptions{});
  const Shards shards(faults, paths, 4);
  std::vector<std::weak_ptr<File>> files;
  for (std::size_t i = 0; i < 30; ++i) files.push_back(shards.open(i).file);
  std::size_t open = 0;
  for (const auto& file : files) open += !file.expired();
  EXPECT_EQ(open, 4u);
  const std::uint64_t before = faults->operations();
  shards.open(29);
  shards.open(26);
  EXPECT_EQ(faults->operations(), before) << "the four used last are open";
  EXPECT_EQ(test::as_text(shards.open(0).file->read_all(10)), "0");
}

TEST(Shards, Folder) {
  const test::TempFolder folder;
  const Shards shards(nullptr, {folder.path()});
  test::expect_error(ErrorCode::not_found, "Is a directory", [&] { shards.open(0); });
}

TEST(Shards, RemovedFile) {
  const test::TempFolder folder;
  const Shards shards(nullptr, {folder.write("a", "a")});
  std::filesystem::remove(folder / "a");
  test::expect_error(ErrorCode::changed, "was removed", [&] { shards.open(0); });
}

/// A process whose descriptors run out.
class FewDescriptors final : public FileSystem {
 public:
  explicit FewDescriptors(int most) : left_(std::make_shared<std::atomic<int>>(most)) {}

  std::string name() const override { return "few"; }
  std::shared_ptr<File> open(const std::string& path) override {
    if (--*left_ < 0) {
      ++*left_;
      throw error_from_errno(EMFILE, "open", path);
    }
    std::shared_ptr<File> file = default_file_system()->open(path);
    return {file.get(), [file, left = left_](File*) { ++*left; }};
  }
  FileInfo info(const std::string& path) override { return default_file_system()->info(path); }
  bool is_directory(const std::string&) override { return false; }
  std::vector<std::string> list(const std::string&) override { return {}; }
  std::vector<std::string> glob(const std::string& pattern, bool /*hidden*/) override {
    return {pattern};
  }
  void allow(int more) { *left_ += more; }

 private:
  std::shared_ptr<std::atomic<int>> left_;
};

TEST(Shards, WorksWithFewDescriptors) {
  const test::TempFolder folder;
  std::vector<std::string> paths, expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::to_string(i));
    paths.push_back(folder.write(expected.back(), test::tfrecord_of(expected.back())));
  }
  test::LogCapture log;
  const auto files = std::make_shared<FewDescriptors>(1000);
  TFRecordOptions options;
  options.files = files;
  options.index_folder = "-";
  const SourcePtr source = make_tfrecord_source(paths, options);
  EXPECT_EQ(test::texts_of(test::read_source(*source)), expected);
  files->allow(-999);  // from now on one less than are open
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(test::texts_of(test::read_source(*source)), expected);
  EXPECT_LE(log.count("RLIMIT_NOFILE"), 1u);
  const Shards shards(std::make_shared<FewDescriptors>(1), paths);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_EQ(test::as_text(shards.open(i).file->read_all(100)).substr(12, 1),
              expected[i].substr(0, 1));
  const Shards none(std::make_shared<FewDescriptors>(0), paths);
  EXPECT_THROW(none.open(0), Error);
}

}  // namespace
}  // namespace penstock
