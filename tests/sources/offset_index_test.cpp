#include <penstock/sources.h>

#include "pipeline/sources/offset_index.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/internal/crc32c.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/posix.h"
#include "pipeline/sources/index_file.h"
#include "pipeline/sources/index_place.h"
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
  OffsetIndex index(const std::vector<std::string>& paths, const std::string& folder = "beside") {
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
  static std::size_t indices_in(const std::string& folder) {
    return default_file_system()->glob(folder + "/*.penstock-index").size();
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
  EXPECT_EQ(indices_in(cache.path()), 2u);
  EXPECT_EQ(index({path, other}, cache.path()).size(), 8u);
  EXPECT_EQ(scans_, 2);
}

/// Sets variables for the length of a scope; null: unset.
using Variables = std::map<std::string, const char*>;
class Environment {
 public:
  explicit Environment(const Variables& values) {
    for (const auto& [name, value] : values) {
      const char* const before = std::getenv(name.c_str());
      before_.emplace(name, before != nullptr ? std::optional<std::string>(before) : std::nullopt);
      set(name, value);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value ? value->c_str() : nullptr);
  }

 private:
  static void set(const std::string& name, const char* value) {
    if (value != nullptr) {
      ::setenv(name.c_str(), value, 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(OffsetIndexTest, FolderOfTheEnvironment) {
  const auto folder = [](const char* said, const char* cache, const char* home) {
    const Environment environment(
        Variables{{"PENSTOCK_INDEX_DIR", said}, {"XDG_CACHE_HOME", cache}, {"HOME", home}});
    return default_index_folder();
  };
  EXPECT_EQ(folder("/said", "/cache", "/users/me"), "/said");
  EXPECT_EQ(folder("-", "/cache", "/users/me"), "-");
  EXPECT_EQ(folder("", "/cache", "/users/me"), "/cache/penstock");
  EXPECT_EQ(folder(nullptr, "/cache", "/users/me"), "/cache/penstock");
  EXPECT_EQ(folder(nullptr, "not/absolute", "/users/me"), "/users/me/.cache/penstock");
  EXPECT_EQ(folder(nullptr, nullptr, "/users/me"), "/users/me/.cache/penstock");
  EXPECT_EQ(folder(nullptr, nullptr, nullptr), "-");
}

TEST_F(OffsetIndexTest, IsKeptInTheCacheWhereNoPlaceIsSaid) {
  const std::string path = shard("data", "12345"), other = shard("sub/data", "123");
  const test::TempFolder home;
  const Environment environment(Variables{
      {"PENSTOCK_INDEX_DIR", nullptr}, {"XDG_CACHE_HOME", nullptr}, {"HOME", home.path().c_str()}});
  index({path, other}, "");
  EXPECT_FALSE(std::filesystem::exists(kept("data")));
  const std::string cache = home / ".cache/penstock";
  EXPECT_EQ(indices_in(cache), 2u);
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::owner_all);
  EXPECT_EQ(index({path, other}, "").size(), 8u);
  EXPECT_EQ(scans_, 2);
  // By whatever way the shard is named.
  std::filesystem::create_symlink(folder_ / "sub", folder_ / "link");
  EXPECT_EQ(index({folder_ / "link/data", folder_ / "sub/../data"}, "").size(), 8u);
  EXPECT_EQ(scans_, 2);
  shard("data", "123456");
  EXPECT_EQ(index({path}, "").size(), 6u);
  EXPECT_EQ(scans_, 3);
}

TEST_F(OffsetIndexTest, IndexBesideTheData) {
  const std::string path = shard("data", "12345");
  index({path}, "beside");
  const test::TempFolder cache;
  const Environment environment(Variables{{"PENSTOCK_INDEX_DIR", cache.path().c_str()}});
  EXPECT_EQ(index({path}, "").size(), 5u);
  EXPECT_EQ(scans_, 1);
  shard("data", "123456");  // the one beside the data is stale now, and stays as it is
  const std::string stale = test::read_file(kept("data"));
  EXPECT_EQ(index({path}, "").size(), 6u);
  EXPECT_EQ(index({path}, "").size(), 6u);
  EXPECT_EQ(scans_, 2);
  EXPECT_EQ(test::read_file(kept("data")), stale);
}

TEST_F(OffsetIndexTest, UnwritableCache) {
  const std::string path = shard("data", "12345");
  const std::string file = folder_.write("file", "in the way");
  const test::LogCapture log;
  for (const std::string& cache : {file, file + "/below", std::string("/proc/nowhere/penstock")}) {
    const Environment environment(Variables{{"PENSTOCK_INDEX_DIR", cache.c_str()}});
    EXPECT_EQ(index({path}, "").size(), 5u) << cache;
    EXPECT_EQ(index({path}, "").size(), 5u) << cache;
  }
  EXPECT_EQ(scans_, 6);
  EXPECT_EQ(log.count("can't write " + file + "/"), 1u) << "once";
  EXPECT_EQ(log.count("shards will be scanned again next time (index_folder or"), 1u);
}

TEST_F(OffsetIndexTest, ConcurrentThreads) {
  std::vector<std::string> paths;
  for (int i = 0; i < 8; ++i) paths.push_back(shard("s" + std::to_string(i), "12345"));
  const test::TempFolder cache;
  const Environment environment(Variables{{"PENSTOCK_INDEX_DIR", (cache / "new").c_str()}});
  std::vector<std::jthread> threads;
  std::atomic<std::uint64_t> records{0};
  for (int i = 0; i < 6; ++i) threads.emplace_back([&] { records += index(paths, "").size(); });
  threads.clear();
  EXPECT_EQ(records, 6u * 40u);
  const int scans = scans_;
  EXPECT_EQ(index(paths, "").size(), 40u);
  EXPECT_EQ(scans_, scans) << "all were kept whole";
  EXPECT_EQ(indices_in(cache / "new"), 8u);
}

TEST_F(OffsetIndexTest, IsMadeAnewWhenStale) {
  const std::string path = shard("data", "12345");
  index({path});
  shard("data", "123456");
  EXPECT_EQ(index({path}).size(), 6u);
  EXPECT_EQ(scans_, 2);
  kind_ = "other";
  EXPECT_EQ(index({path}).size(), 6u);
  EXPECT_EQ(scans_, 3);
}

TEST_F(OffsetIndexTest, BelongsToTheContentsWhateverTheTimesSay) {
  const std::string path = shard("data", "12345");
  index({path});
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_EQ(index({path}).size(), 5u);
  EXPECT_EQ(scans_, 1) << "only touched";
  shard("data", "12354");
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(index({path}).size(), 5u);
  EXPECT_EQ(scans_, 2) << "rewritten with the same size and time";
  std::filesystem::copy(folder_.path(), folder_.path() + "-copy");
  EXPECT_EQ(index({folder_.path() + "-copy/data"}).size(), 5u);
  EXPECT_EQ(scans_, 2) << "copied with its index";
  std::filesystem::remove_all(folder_.path() + "-copy");
}

TEST_F(OffsetIndexTest, IsMadeAnewWhenDamagedInAnyByteOrCut) {
  const std::string path = shard("data", "12345");
  index({path});
  const std::string sound = test::read_file(kept("data"));
  ASSERT_GT(sound.size(), 100u);
  const ShardContents contents = test::shard_contents(*default_file_system(), path);
  ASSERT_TRUE(load_index(kept("data"), contents, {.kind = kind_}));
  for (std::size_t at = 0; at < sound.size(); ++at) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    ASSERT_FALSE(load_index(folder_.write("damaged", damaged), contents, {.kind = kind_})) << at;
    ASSERT_FALSE(load_index(folder_.write("cut", sound.substr(0, at)), contents, {.kind = kind_}))
        << at;
  }
  folder_.write(".data.penstock-index", sound.substr(1));
  EXPECT_EQ(index({path}).size(), 5u);
  EXPECT_EQ(scans_, 2);
  EXPECT_EQ(test::read_file(kept("data")), sound);
}

TEST_F(OffsetIndexTest, HostileFilesWithARightChecksum) {
  const ShardContents contents{.size = 5, .hash = 1};
  const std::string path = folder_ / "hostile";
  ShardIndex outside;
  outside.entries = {{3, 3}};
  ASSERT_TRUE(save_index(path, contents, "k", outside));
  EXPECT_FALSE(load_index(path, contents, {.kind = "k"}));
  outside.entries = {{UINT64_MAX, 6}};
  ASSERT_TRUE(save_index(path, contents, "k", outside));
  EXPECT_FALSE(load_index(path, contents, {.kind = "k"}));
  ShardIndex faults;
  faults.entries = {{0, 5}};
  faults.faults = {{1, ErrorCode::data_loss, "no such record"}};
  ASSERT_TRUE(save_index(path, contents, "k", faults));
  EXPECT_FALSE(load_index(path, contents, {.kind = "k"}));
  faults.faults = {{0, ErrorCode::data_loss, "a"}, {0, ErrorCode::data_loss, "twice"}};
  ASSERT_TRUE(save_index(path, contents, "k", faults));
  EXPECT_FALSE(load_index(path, contents, {.kind = "k"}));
  for (const ErrorCode code :
       {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::resource_exhausted,
        ErrorCode::unavailable, ErrorCode::cancelled, ErrorCode::user, ErrorCode::internal,
        ErrorCode::device_lost, ErrorCode::no_progress, ErrorCode::mismatch,
        static_cast<ErrorCode>(99)}) {
    faults.faults = {{0, code, "no scan keeps this"}};
    ASSERT_TRUE(save_index(path, contents, "k", faults));
    EXPECT_FALSE(load_index(path, contents, {.kind = "k"})) << static_cast<int>(code);
  }
  faults.faults = {{0, ErrorCode::data_loss, ""}};
  ASSERT_TRUE(save_index(path, contents, "k", faults));
  EXPECT_FALSE(load_index(path, contents, {.kind = "k"})) << "a fault without a cause";
  faults.faults = {{0, ErrorCode::data_loss, "a"}};
  ASSERT_TRUE(save_index(path, contents, "k", faults));
  std::string file = test::read_file(path);
  // From the end: checksum, no notes, the cause and its length, the code.
  file[file.size() - 4 - 8 - 1 - 8 - 7] = 1;
  file.resize(file.size() - 4);
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(file)));
  folder_.write("hostile", file + test::little_endian(crc));
  EXPECT_FALSE(load_index(path, contents, {.kind = "k"})) << "a code of more than a byte";
  faults.faults.pop_back();
  ASSERT_TRUE(save_index(path, contents, "k", faults));
  EXPECT_TRUE(load_index(path, contents, {.kind = "k"}));
}

TEST_F(OffsetIndexTest, ImpossibleEntries) {
  const ShardContents contents{.size = 100, .hash = 1};
  const IndexOptions options{
      .kind = "k", .least_entry_bytes = 10, .most_entry_bytes = 20, .least_notes = 1};
  const auto loads = [&](std::vector<IndexEntry> entries, std::vector<IndexFault> faults,
                         std::vector<std::string> notes) {
    const std::string path = folder_ / "possible";
    EXPECT_TRUE(save_index(path, contents, "k", {std::move(entries), std::move(faults), notes}));
    return load_index(path, contents, options).has_value();
  };
  EXPECT_TRUE(loads({{0, 10}, {10, 20}}, {}, {""}));
  EXPECT_FALSE(loads({{0, 10}, {10, 20}}, {}, {}));
  EXPECT_FALSE(loads({{0, 10}, {10, 9}}, {}, {""}));
  EXPECT_FALSE(loads({{0, 21}, {30, 10}}, {}, {""}));
  const IndexFault fault{1, ErrorCode::data_loss, "cut"};
  EXPECT_TRUE(loads({{0, 10}, {10, 0}, {10, 90 - 70}}, {fault}, {""}));
  EXPECT_FALSE(loads({{0, 10}, {10, 0}, {10, 0}}, {fault}, {""})) << "one of them is no fault";
}

TEST_F(OffsetIndexTest, UnwritableFolder) {
  const std::string path = shard("data", "12345");
  EXPECT_EQ(index({path}, folder_ / "no such folder").size(), 5u);
  EXPECT_EQ(index({path}, folder_ / "no such folder").size(), 5u);
  EXPECT_EQ(index({path}, "-").size(), 5u);
  EXPECT_EQ(scans_, 3);
}

TEST_F(OffsetIndexTest, FailedScan) {
  lasting_ = false;
  const std::string path = shard("data", "12345");
  index({path});
  EXPECT_FALSE(std::filesystem::exists(kept("data")));
}

TEST_F(OffsetIndexTest, TransientFault) {
  code_ = ErrorCode::resource_exhausted;
  const std::string path = shard("data", "12345");
  EXPECT_EQ(index({path}).fault({0, 2})->code, code_);
  EXPECT_FALSE(std::filesystem::exists(kept("data")));
  code_ = ErrorCode::data_loss;
  index({path});
  EXPECT_TRUE(std::filesystem::exists(kept("data")));
}

TEST_F(OffsetIndexTest, FilesInMemory) {
  const auto memory = make_memory_file_system({{"data", "12345"}});
  EXPECT_EQ(index_path("data", memory->info("data"), {.least_cached_bytes = 0}), "");
}

TEST_F(OffsetIndexTest, ExceptionOfAScan) {
  const Shards shards(nullptr, {shard("a", "1"), shard("b", "2"), shard("c", "3")});
  EXPECT_THROW(OffsetIndex(shards, {.kind = "x", .folder = "-"},
                           [](File& file) -> ShardIndex {
                             if (file.path().ends_with("b"))
                               throw Error(ErrorCode::unavailable, "b");
                             return {};
                           }),
               Error);
}

}  // namespace
}  // namespace penstock
