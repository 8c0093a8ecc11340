// Hashes of files: what they cover, what a machine knows of a file, and indices that depend on
// them.
#include "pipeline/sources/known_files.h"

#include <filesystem>

#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "pipeline/sources/contents.h"
#include "tests/support/files.h"
#include "tests/support/kept_index.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

class HashContents : public ::testing::Test {
 protected:
  std::uint64_t hash(const std::string& known) {
    const FileInfo info = default_file_system()->info(path_);
    const ListedFiles list{1, [&](std::size_t) { return path_; },
                           [&](std::size_t) { return info; }};
    return hash_contents(*default_file_system(), list, known)[0];
  }
  void write(std::size_t changed) {
    std::string bytes(kSize, 'x');
    if (changed < kSize) bytes[changed] = 'y';
    folder_.write("large", bytes);
  }

  static constexpr std::size_t kSize = 2 << 20;
  TempFolder folder_;
  const std::string path_ = folder_ / "large";
  const std::string known_ = folder_ / "known";
};

TEST_F(HashContents, SamplesEndsAndBlocks) {
  write(kSize);
  const std::uint64_t whole = hash("-");
  int seen = 0;
  for (std::size_t at = 0; at < kSize; at += 4096) {
    write(at);
    const bool differs = hash("-") != whole;
    seen += differs;
    const bool at_an_end = at < (64 << 10) || at >= kSize - (64 << 10);
    EXPECT_TRUE(differs || !at_an_end) << at;
  }
  EXPECT_GE(seen, 32 + 40);
  EXPECT_LE(seen, 32 + 2 * 64);
}

TEST_F(HashContents, ChangeOfAKnownFile) {
  write(kSize);
  const std::uint64_t first = hash(known_);
  EXPECT_EQ(hash(known_), first);
  EXPECT_EQ(hash("-"), first);
  std::size_t unseen = 64 << 10;
  for (write(unseen); hash("-") != first; write(unseen)) unseen += 4096;
  const std::uint64_t other = hash(known_);
  EXPECT_NE(other, first) << "no sample shows it";
  EXPECT_EQ(hash(known_), other);
  fs::last_write_time(path_, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(hash(known_), other) << "only touched";
  fs::copy_file(path_, path_ + "2");
  fs::rename(path_ + "2", path_);
  EXPECT_EQ(hash(known_), first) << "of a file that this machine does not know, samples decide";
}

TEST_F(HashContents, ChangeOfASampledFile) {
  write(kSize);
  const std::uint64_t sampled = hash("-");
  const FileInfo info = default_file_system()->info(path_);
  KnownFiles known(known_);
  known.add({.device = info.device,
             .inode = info.inode,
             .size = info.size,
             .mtime_ns = info.mtime_ns,
             .ctime_ns = info.ctime_ns - 1,
             .hashed_ns = info.ctime_ns,
             .sampled = sampled,
             .whole = 0,
             .identity = sampled});
  known.store();
  const std::uint64_t other = hash(known_);
  EXPECT_NE(other, sampled);
  EXPECT_EQ(hash(known_), other);
}

TEST_F(HashContents, DamagedOrUnwritableNotes) {
  write(kSize);
  const std::uint64_t first = hash(known_);
  for (const std::string& file : default_file_system()->list(known_)) {
    std::string bytes = test::read_file(file);
    for (const std::string& damaged :
         {bytes.substr(0, bytes.size() / 2), std::string(), bytes + "x"}) {
      std::ofstream(file, std::ios::binary) << damaged;
      EXPECT_EQ(hash(known_), first);
    }
  }
  EXPECT_EQ(hash("/proc/nowhere"), first);
  EXPECT_EQ(hash(path_), first) << "a file in the place of the folder";
}

TEST(ContentsIndex, OfAFileThatWasRewrittenWithItsSizeAndTimeIsMadeAgain) {
  const std::string long_word(test::kIndexedBytes, 'x');
  struct Case {
    const char* name;
    std::string before, after;
    SourcePtr (*open)(const std::string& path, const std::string& folder);
  };
  const auto csv = [](const std::string& path, const std::string& folder) {
    CsvOptions options;
    options.index_folder = folder;
    return make_csv_source({path}, options);
  };
  const auto lines = [](const std::string& path, const std::string& folder) {
    FileOptions options;
    options.index_folder = folder;
    return make_text_lines_source({path}, options);
  };
  const auto records = [](const std::string& path, const std::string& folder) {
    TFRecordOptions options;
    options.index_folder = folder;
    return make_tfrecord_source({path}, options);
  };
  const auto tar = [](const std::string& path, const std::string& folder) {
    TarOptions options;
    options.index_folder = folder;
    return make_tar_source({path}, options);
  };
  const Case cases[] = {
      {"csv", "w\na\nbcd\n" + long_word + "\n", "w\nabc\nd\n" + long_word + "\n", csv},
      {"lines", long_word + "\na\nbcd\n", long_word + "\nabc\nd\n", lines},
      {"tfrecord", test::tfrecords_of({"a", "bcd", long_word}),
       test::tfrecords_of({"abc", "d", long_word}), records},
      {"tar",
       test::tar_member("a.txt", "1") + test::tar_member("b.txt", long_word) + test::tar_end(),
       test::tar_member("b.txt", long_word) + test::tar_member("a.txt", "1") + test::tar_end(),
       tar},
  };
  const TempFolder folder;
  fs::create_directories(folder / "kept");
  for (const Case& c : cases) {
    ASSERT_EQ(c.before.size(), c.after.size()) << c.name;
    const std::string path = folder.write(c.name, c.before);
    const std::string fresh = folder.write(std::string("fresh/") + c.name, c.after);
    const auto read = [&](const std::string& file, const std::string& kept) {
      return test::texts_of(test::read_source(*c.open(file, kept)));
    };
    const auto before = read(path, folder / "kept");
    const auto time = fs::last_write_time(path);
    std::ofstream(path, std::ios::binary | std::ios::in) << c.after;
    fs::last_write_time(path, time);
    EXPECT_EQ(read(path, folder / "kept"), read(fresh, "-")) << c.name;
    // Another file's index in the place of this one's, for these contents.
    const std::string index =
        test::kept_index(path, default_file_system()->info(path), folder / "kept");
    const ShardContents contents = test::shard_contents(*default_file_system(), path);
    ShardIndex wrong = *load_index(index, contents, {.kind = test::kind_of_index(index)});
    for (IndexEntry& entry : wrong.entries)
      if (entry.size > 1) entry.size -= 1, entry.offset += 1;
    ASSERT_TRUE(save_index(index, contents, test::kind_of_index(index), wrong));
    EXPECT_EQ(read(path, folder / "kept"), read(fresh, "-")) << c.name << " with a wrong index";
  }
}

}  // namespace
}  // namespace penstock
