// Index files that somebody else wrote, with a right checksum: they change nothing.
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "pipeline/sources/index_file.h"
#include "tests/support/files.h"
#include "tests/support/kept_index.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace {

struct Indexed {
  const char* name;
  std::string (*shard)(const std::string& large);  // three records, of which the second is large
  SourcePtr (*make)(const FileSystemPtr& files, const std::string& index_folder);
};

// Made when a test needs it: each start of the program makes all parameters.
std::string shard_of(const Indexed& indexed) {
  return indexed.shard(std::string(test::kIndexedBytes, 'x'));
}

template <typename Options>
Options options_of(const FileSystemPtr& files, const std::string& index_folder) {
  Options options;
  options.files = files;
  options.index_folder = index_folder;
  return options;
}

class HostileIndex : public ::testing::TestWithParam<Indexed> {};

TEST_P(HostileIndex, ImpossibleEntries) {
  const auto files = make_memory_file_system({{"shard", shard_of(GetParam())}});
  const FileInfo info = files->info("shard");
  const ShardContents contents = test::shard_contents(*files, "shard");
  const test::TempFolder folder;
  const auto read = [&] {
    return test::texts_of(test::read_source(*GetParam().make(files, folder.path())));
  };
  const std::vector<std::string> sound = read();
  ASSERT_EQ(sound.size(), 3u);
  const std::string path = test::kept_index("shard", info, folder.path());
  const std::string kind = test::kind_of_index(path);
  ShardIndex whole = *load_index(path, contents, {.kind = kind});
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
    ASSERT_TRUE(save_index(path, contents, kind, index));
    EXPECT_EQ(read(), sound);
  }
}

TEST_P(HostileIndex, EntriesAnywhere) {
  const auto files = make_memory_file_system({{"shard", shard_of(GetParam())}});
  const FileInfo info = files->info("shard");
  const ShardContents contents = test::shard_contents(*files, "shard");
  const test::TempFolder folder;
  const auto make = [&] { return GetParam().make(files, folder.path()); };
  const auto sound = test::texts_of(test::read_source(*make()));
  const std::string path = test::kept_index("shard", info, folder.path());
  const std::string kind = test::kind_of_index(path);
  ShardIndex index = *load_index(path, contents, {.kind = kind});
  for (const std::uint64_t size : {1, 4, 11, 12, 15, 16, 17, 511, 512, 513, 1024}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{3}, info.size - size}) {
      index.entries = {{offset, size}, {offset, size}};
      ASSERT_TRUE(save_index(path, contents, kind, index));
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
        Indexed{"tfrecord",
                [](const std::string& large) {
                  return test::tfrecords_of({"a", large, "b"});
                },
                [](const FileSystemPtr& files, const std::string& folder) {
                  return make_tfrecord_source({"shard"},
                                              options_of<TFRecordOptions>(files, folder));
                }},
        Indexed{"tar",
                [](const std::string& large) {
                  return test::tar_member("a.jpg", "a") + test::tar_member("b.jpg", large) +
                         test::tar_member("c.jpg", "c") + test::tar_end();
                },
                [](const FileSystemPtr& files, const std::string& folder) {
                  return make_tar_source({"shard"}, options_of<TarOptions>(files, folder));
                }},
        Indexed{"csv", [](const std::string& large) { return "word\na\n" + large + "\nb\n"; },
                [](const FileSystemPtr& files, const std::string& folder) {
                  return make_csv_source({"shard"}, options_of<CsvOptions>(files, folder));
                }}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace penstock
