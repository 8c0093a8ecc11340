#include "pipeline/io/mmap.h"

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace penstock {
namespace {

// Its pages are not touched: those that were cut away would be SIGBUS.
TEST(MmapFileSystem, TruncatedFile) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", test::noise(100'000));
  const auto file = make_file_system("mmap")->open(path);
  std::vector<std::byte> out(100'000);
  file->read_exactly(0, out);
  std::filesystem::resize_file(path, 10'000);
  for (const bool uncached : {false, true}) {
    std::array<ReadRequest, 3> group{
        {{0, 10, out.data(), {}}, {50'000, 50'000, out.data(), {}}, {99'999, 2, out.data(), {}}}};
    uncached ? file->read_uncached(group) : file->read(group);
    for (const ReadRequest& request : group) {
      ASSERT_FALSE(request.status.ok());
      EXPECT_EQ(request.status.error().code(), ErrorCode::changed);
      EXPECT_EQ(request.status.error().where().shard, path);
    }
  }
}

TEST(MmapFileSystem, KnowsWhatLiesWhereAndHoldsNoDescriptor) {
  const test::TempFolder folder;
  std::vector<std::shared_ptr<File>> files;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int i = 0; i < 20; ++i) {
    const std::string path = folder.write(std::to_string(i), test::noise(5000 * (i + 1)));
    files.push_back(make_file_system("mmap")->open(path));
  }
  EXPECT_EQ(descriptors(), before);
  for (const auto& file : files) {
    const std::span<const std::byte> bytes = file->mapped();
    EXPECT_STREQ(mapped_file_at(bytes.data()), file->path().c_str());
    EXPECT_STREQ(mapped_file_at(bytes.data() + bytes.size() - 1), file->path().c_str());
  }
  const void* gone = files[7]->mapped().data();
  files[7].reset();
  EXPECT_EQ(mapped_file_at(gone), nullptr);
  EXPECT_EQ(mapped_file_at(&gone), nullptr);
}

}  // namespace
}  // namespace penstock
