#include <penstock/sources.h>

#include "pipeline/sources/offset_index.h"

#include <atomic>
#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/crc32c.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/posix.h"
#include "pipeline/sources/index_file.h"
#include "tests/support/files.h"
#include "tests/support/kept_index.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace {

using ::testing::IsEmpty;

/// Shards on disk and a scan that makes an entry of every byte of a shard and counts its calls.
class OffsetIndexTest : public ::testing::Test {
 protected:
  std::string shard(const std::string& name, const std::string& contents) {
    return folder_.write(name, contents);
  }
  OffsetIndex index(const std::vector<std::string>& paths, const std::string& folder = "") {
    const Shards shards(nullptr, paths);
    return OffsetIndex(shards, {.kind = kind_, .folder = folder, .least_cached_bytes = 0},
                       [this](File& file) {
                         ++scans_;
                         ShardIndex found;
                         for (std::uint64_t i = 0; i < file.info().size; ++i)
                           found.entries.push_back({i, 1});
                         if (file.info().size > 2)
                           found.faults.push_back({2, code_, "third is bad"});
                         found.notes = {"a note", ""};
                         found.lasting = lasting_;
                         return found;
                       });
  }
  std::string kept(const std::string& name) { return folder_ / ("." + name + ".penstock-index"); }

  test::TempFolder folder_;
  std::string kind_ = "bytes";
  bool lasting_ = true;
  ErrorCode code_ = ErrorCode::out_of_range;
  std::atomic<int> scans_{0};
};

TEST_F(OffsetIndexTest, FindsEveryRecordOfManyShards) {
  std::vector<std::string> paths;
  std::vector<OffsetIndex::Position> expected;
  for (std::size_t i = 0; i < 50; ++i) {
    const std::size_t size = i % 4 == 0 ? 0 : i % 7;  // empty shards too, at both ends
    paths.push_back(shard("s" + std::to_string(i), std::string(size, 'x')));
    for (std::uint64_t k = 0; k < size; ++k) expected.push_back({i, k});
  }
  const OffsetIndex found = index(paths, "-");
  ASSERT_EQ(found.size(), expected.size());
  for (std::uint64_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found.find(i).shard, expected[i].shard);
    ASSERT_EQ(found.find(i).record, expected[i].record);
    ASSERT_EQ(found.entry(found.find(i)).offset, expected[i].record);
    ASSERT_EQ(found.fault(found.find(i)) != nullptr, expected[i].record == 2);
  }
  EXPECT_EQ(scans_, 50);
}

TEST_F(OffsetIndexTest, IsKeptBesideTheDataAndUsedAgain) {
  const std::string path = shard("data", "12345");
  const OffsetIndex first = index({path});
  ASSERT_TRUE(std::filesystem::exists(kept("data")));
  EXPECT_THAT(default_file_system()->glob(folder_ / "*"), ::testing::ElementsAre(path))
      << "no pattern may take an index for a shard";
  const OffsetIndex second = index({path});
  EXPECT_EQ(scans_, 1);
  ASSERT_EQ(second.size(), first.size());
  EXPECT_EQ(second.checksum(0), first.checksum(0));
  EXPECT_EQ(second.fault({0, 2})->cause, "third is bad");
  EXPECT_EQ(second.fault({0, 2})->code, ErrorCode::out_of_range);
  EXPECT_EQ(second.shard(0).notes, first.shard(0).notes);
}

TEST_F(OffsetIndexTest, IsKeptInAFolder) {
  const std::string path = shard("data", "12345"), other = shard("sub/data", "123");
  const test::TempFolder cache;
  index({path, other}, cache.path());
  EXPECT_FALSE(std::filesystem::exists(kept("data")));
  EXPECT_EQ(default_file_system()->list(cache.path()).size(), 2u);
  EXPECT_EQ(index({path, other}, cache.path()).size(), 8u);
  EXPECT_EQ(scans_, 2);
}

TEST_F(OffsetIndexTest, IsMadeAnewWhenStale) {
  const std::string path = shard("data", "12345");
  index({path});
  shard("data", "123456");
  EXPECT_EQ(index({path}).size(), 6u);
  EXPECT_EQ(scans_, 2);
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_EQ(index({path}).size(), 6u);
  EXPECT_EQ(scans_, 3);
  kind_ = "other";
  EXPECT_EQ(index({path}).size(), 6u);
  EXPECT_EQ(scans_, 4);
}

TEST_F(OffsetIndexTest, IsMadeAnewWhenDamagedInAnyByteOrCut) {
  const std::string path = shard("data", "12345");
  index({path});
  const std::string sound = test::read_file(kept("data"));
  ASSERT_GT(sound.size(), 100u);
  const FileInfo info = default_file_system()->info(path);
  ASSERT_TRUE(load_index(kept("data"), info, {.kind = kind_}));
  for (std::size_t at = 0; at < sound.size(); ++at) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    ASSERT_FALSE(load_index(folder_.write("damaged", damaged), info, {.kind = kind_})) << at;
    ASSERT_FALSE(load_index(folder_.write("cut", sound.substr(0, at)), info, {.kind = kind_}))
        << at;
  }
  folder_.write(".data.penstock-index", sound.substr(1));
  EXPECT_EQ(index({path}).size(), 5u);
  EXPECT_EQ(scans_, 2);
  EXPECT_EQ(test::read_file(kept("data")), sound);
}

TEST_F(OffsetIndexTest, HostileIndexFilesWithARightChecksumAreRefused) {
  const FileInfo info{.size = 5, .mtime_ns = 1, .inode = 1};
  const std::string path = folder_ / "hostile";
  ShardIndex outside;
  outside.entries = {{3, 3}};
  ASSERT_TRUE(save_index(path, info, "k", outside));
  EXPECT_FALSE(load_index(path, info, {.kind = "k"}));
  outside.entries = {{UINT64_MAX, 6}};
  ASSERT_TRUE(save_index(path, info, "k", outside));
  EXPECT_FALSE(load_index(path, info, {.kind = "k"}));
  ShardIndex faults;
  faults.entries = {{0, 5}};
  faults.faults = {{1, ErrorCode::data_loss, "no such record"}};
  ASSERT_TRUE(save_index(path, info, "k", faults));
  EXPECT_FALSE(load_index(path, info, {.kind = "k"}));
  faults.faults = {{0, ErrorCode::data_loss, "a"}, {0, ErrorCode::data_loss, "twice"}};
  ASSERT_TRUE(save_index(path, info, "k", faults));
  EXPECT_FALSE(load_index(path, info, {.kind = "k"}));
  for (const ErrorCode code :
       {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::resource_exhausted,
        ErrorCode::unavailable, ErrorCode::cancelled, ErrorCode::user, ErrorCode::internal,
        ErrorCode::device_lost, ErrorCode::no_progress, static_cast<ErrorCode>(99)}) {
    faults.faults = {{0, code, "no scan keeps this"}};
    ASSERT_TRUE(save_index(path, info, "k", faults));
    EXPECT_FALSE(load_index(path, info, {.kind = "k"})) << static_cast<int>(code);
  }
  faults.faults = {{0, ErrorCode::data_loss, ""}};
  ASSERT_TRUE(save_index(path, info, "k", faults));
  EXPECT_FALSE(load_index(path, info, {.kind = "k"})) << "a fault without a cause";
  faults.faults = {{0, ErrorCode::data_loss, "a"}};
  ASSERT_TRUE(save_index(path, info, "k", faults));
  std::string file = test::read_file(path);
  // From the end: checksum, no notes, the cause and its length, the code.
  file[file.size() - 4 - 8 - 1 - 8 - 7] = 1;
  file.resize(file.size() - 4);
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(file)));
  folder_.write("hostile", file + test::little_endian(crc));
  EXPECT_FALSE(load_index(path, info, {.kind = "k"})) << "a code of more than a byte";
  faults.faults.pop_back();
  ASSERT_TRUE(save_index(path, info, "k", faults));
  EXPECT_TRUE(load_index(path, info, {.kind = "k"}));
}

TEST_F(OffsetIndexTest, WhatNoScanFindsIsRefused) {
  const FileInfo info{.size = 100, .mtime_ns = 1, .inode = 1};
  const IndexOptions options{
      .kind = "k", .least_entry_bytes = 10, .most_entry_bytes = 20, .least_notes = 1};
  const auto loads = [&](std::vector<IndexEntry> entries, std::vector<IndexFault> faults,
                         std::vector<std::string> notes) {
    const std::string path = folder_ / "possible";
    EXPECT_TRUE(save_index(path, info, "k", {std::move(entries), std::move(faults), notes}));
    return load_index(path, info, options).has_value();
  };
  EXPECT_TRUE(loads({{0, 10}, {10, 20}}, {}, {""}));
  EXPECT_FALSE(loads({{0, 10}, {10, 20}}, {}, {}));
  EXPECT_FALSE(loads({{0, 10}, {10, 9}}, {}, {""}));
  EXPECT_FALSE(loads({{0, 21}, {30, 10}}, {}, {""}));
  const IndexFault fault{1, ErrorCode::data_loss, "cut"};
  EXPECT_TRUE(loads({{0, 10}, {10, 0}, {10, 90 - 70}}, {fault}, {""}));
  EXPECT_FALSE(loads({{0, 10}, {10, 0}, {10, 0}}, {fault}, {""})) << "one of them is no fault";
}

TEST_F(OffsetIndexTest, WhereNothingCanBeWrittenItGoesOn) {
  const std::string path = shard("data", "12345");
  EXPECT_EQ(index({path}, folder_ / "no such folder").size(), 5u);
  EXPECT_EQ(index({path}, folder_ / "no such folder").size(), 5u);
  EXPECT_EQ(index({path}, "-").size(), 5u);
  EXPECT_EQ(scans_, 3);
}

TEST_F(OffsetIndexTest, AScanThatCouldNotReadIsNotKept) {
  lasting_ = false;
  const std::string path = shard("data", "12345");
  index({path});
  EXPECT_FALSE(std::filesystem::exists(kept("data")));
}

TEST_F(OffsetIndexTest, AFaultOfTheMomentIsNotKept) {
  code_ = ErrorCode::resource_exhausted;
  const std::string path = shard("data", "12345");
  EXPECT_EQ(index({path}).fault({0, 2})->code, code_);
  EXPECT_FALSE(std::filesystem::exists(kept("data")));
  code_ = ErrorCode::data_loss;
  index({path});
  EXPECT_TRUE(std::filesystem::exists(kept("data")));
}

TEST_F(OffsetIndexTest, FilesInMemoryLeaveNothingOnTheDisk) {
  const auto memory = make_memory_file_system({{"data", "12345"}});
  EXPECT_EQ(index_path("data", memory->info("data"), {.least_cached_bytes = 0}), "");
}

TEST_F(OffsetIndexTest, WhatAScanThrowsIsThrown) {
  const Shards shards(nullptr, {shard("a", "1"), shard("b", "2"), shard("c", "3")});
  EXPECT_THROW(OffsetIndex(shards, {.kind = "x", .folder = "-"},
                           [](File& file) -> ShardIndex {
                             if (file.path().ends_with("b"))
                               throw Error(ErrorCode::unavailable, "b");
                             return {};
                           }),
               Error);
}

// ---- Files that somebody else wrote, with a right checksum: they change nothing.

struct Indexed {
  const char* name;
  std::string shard;
  SourcePtr (*make)(const FileSystemPtr& files, const std::string& index_folder);
};

template <typename Options>
Options options_of(const FileSystemPtr& files, const std::string& index_folder) {
  Options options;
  options.files = files;
  options.index_folder = index_folder;
  return options;
}

class HostileIndex : public ::testing::TestWithParam<Indexed> {};

TEST_P(HostileIndex, ThatNoScanFindsIsMadeAnew) {
  const auto files = make_memory_file_system({{"shard", GetParam().shard}});
  const FileInfo info = files->info("shard");
  const test::TempFolder folder;
  const auto read = [&] {
    return test::texts_of(test::read_source(*GetParam().make(files, folder.path())));
  };
  const std::vector<std::string> sound = read();
  ASSERT_EQ(sound.size(), 3u);
  const std::string path = test::kept_index("shard", info, folder.path());
  const std::string kind = test::kind_of_index(path);
  ShardIndex whole = *load_index(path, info, {.kind = kind});
  const auto entries = [&](std::vector<IndexEntry> others) {
    ShardIndex index = whole;
    index.entries = std::move(others);
    return index;
  };
  std::vector<ShardIndex> hostile{entries({{0, 0}}), entries({{info.size, 0}}),
                                  entries({whole.entries[0], {whole.entries[1].offset, 0}}),
                                  entries({{0, 0}, whole.entries[0]})};
  hostile.push_back(whole);
  hostile.back().notes.clear();
  if (whole.notes.empty()) hostile.pop_back();  // this kind has none
  for (const ShardIndex& index : hostile) {
    ASSERT_TRUE(save_index(path, info, kind, index));
    EXPECT_EQ(read(), sound);
  }
}

TEST_P(HostileIndex, ThatPointsAnywhereGivesErrors) {
  const auto files = make_memory_file_system({{"shard", GetParam().shard}});
  const FileInfo info = files->info("shard");
  const test::TempFolder folder;
  const auto make = [&] { return GetParam().make(files, folder.path()); };
  const auto sound = test::texts_of(test::read_source(*make()));
  const std::string path = test::kept_index("shard", info, folder.path());
  const std::string kind = test::kind_of_index(path);
  ShardIndex index = *load_index(path, info, {.kind = kind});
  for (const std::uint64_t size : {1, 4, 11, 12, 15, 16, 17, 511, 512, 513, 1024}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{3}, info.size - size}) {
      index.entries = {{offset, size}, {offset, size}};
      ASSERT_TRUE(save_index(path, info, kind, index));
      const auto got = test::read_source(*make());
      if (test::texts_of(got) == sound) continue;  // it was refused
      ASSERT_EQ(got.size(), 2u) << size;
      EXPECT_EQ(got[0].text(), got[1].text()) << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sources, HostileIndex,
    ::testing::Values(
        Indexed{"tfrecord", test::tfrecords_of({"a", std::string(test::kIndexedBytes, 'x'), "b"}),
                [](const FileSystemPtr& files, const std::string& folder) {
                  return make_tfrecord_source({"shard"},
                                              options_of<TFRecordOptions>(files, folder));
                }},
        Indexed{"tar",
                test::tar_member("a.jpg", "a") +
                    test::tar_member("b.jpg", std::string(test::kIndexedBytes, 'x')) +
                    test::tar_member("c.jpg", "c") + test::tar_end(),
                [](const FileSystemPtr& files, const std::string& folder) {
                  return make_tar_source({"shard"}, options_of<TarOptions>(files, folder));
                }},
        Indexed{"csv", "word\na\n" + std::string(test::kIndexedBytes, 'x') + "\nb\n",
                [](const FileSystemPtr& files, const std::string& folder) {
                  return make_csv_source({"shard"}, options_of<CsvOptions>(files, folder));
                }}),
    [](const auto& tested) { return std::string(tested.param.name); });

// ---- Shards: FAULTS F9.

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
  std::vector<std::string> glob(const std::string& pattern) override { return {pattern}; }
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
