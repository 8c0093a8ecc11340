// What every file system promises, run over all of them.
#include <penstock/file_system.h>

#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/memory.h"
#include "pipeline/io/posix.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The file system under test over a folder of four files.
class FileSystemTest : public ::testing::TestWithParam<std::string> {
 protected:
  FileSystemTest() {
    const std::pair<const char*, std::string> files[] = {
        {"empty", ""}, {"one", "x"}, {"sub/b-1.tar", "bee"}, {"sub/a-1.tar", contents_}};
    auto memory = std::make_shared<MemoryFileSystem>();
    for (const auto& [name, contents] : files) {
      folder_.write(name, contents);
      memory->add(folder_ / name, contents);
    }
    if (GetParam() == "memory") {
      files_ = memory;
    } else if (GetParam() == "faultless") {
      files_ = std::make_shared<FaultFileSystem>(make_file_system("pread"),
                                                 FaultOptions{.seed = 3, .split = true});
    } else {
      files_ = make_file_system(GetParam());
    }
  }

  ErrorCode code_of_open(const std::string& path) {
    try {
      files_->open(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.where().shard, path);
      return error.code();
    }
    return ErrorCode::internal;
  }

  const std::string contents_ = test::noise(300'000);
  test::TempFolder folder_;
  FileSystemPtr files_;
};

TEST_P(FileSystemTest, ReadsEveryBoundary) {
  const auto file = files_->open(folder_ / "sub/a-1.tar");
  ASSERT_EQ(file->info().size, contents_.size());
  EXPECT_EQ(file->path(), folder_ / "sub/a-1.tar");
  for (const std::size_t offset : {0, 1, 4095, 4096, 4097, 299'999, 300'000}) {
    for (const std::size_t size : {0, 1, 2, 4096, 300'000}) {
      std::vector<std::byte> out(size + 1, std::byte{0xee});
      ReadRequest request{offset, size, out.data(), {}};
      file->read({&request, 1});
      EXPECT_EQ(out.back(), std::byte{0xee});
      if (offset + size <= contents_.size()) {
        ASSERT_TRUE(request.status.ok()) << request.status.error().what();
        EXPECT_EQ(test::as_text(out).substr(0, size), contents_.substr(offset, size));
      } else {
        ASSERT_FALSE(request.status.ok()) << offset << '+' << size;
        EXPECT_EQ(request.status.error().code(), ErrorCode::data_loss);
        EXPECT_EQ(request.status.error().where().offset, static_cast<std::int64_t>(offset));
        EXPECT_THAT(request.status.error().what(), HasSubstr("ends at byte 300000"));
      }
    }
  }
}

TEST_P(FileSystemTest, HugeOffsetsAndSizes) {
  const auto file = files_->open(folder_ / "one");
  std::byte out;
  for (const auto& [offset, size] : std::vector<std::pair<std::uint64_t, std::size_t>>{
           {UINT64_MAX, 1}, {1, SIZE_MAX}, {UINT64_MAX, SIZE_MAX}, {1ULL << 63, 1}}) {
    ReadRequest request{offset, size, &out, {}};
    file->read({&request, 1});
    ASSERT_FALSE(request.status.ok());
    EXPECT_EQ(request.status.error().code(), ErrorCode::data_loss);
  }
}

TEST_P(FileSystemTest, AnswersEachRequestOfAGroup) {
  const auto file = files_->open(folder_ / "sub/a-1.tar");
  std::vector<std::string> out(200, std::string(1500, '?'));
  std::vector<ReadRequest> group;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t offset = i == 77 ? 299'000 : i * 1497;
    group.push_back({offset, 1500, reinterpret_cast<std::byte*>(out[i].data()), {}});
  }
  for (const bool uncached : {false, true}) {
    uncached ? file->read_uncached(group) : file->read(group);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(group[i].status.ok(), i != 77) << i;
      if (i != 77) {
        ASSERT_EQ(out[i], contents_.substr(i * 1497, 1500)) << i;
      }
      out[i].assign(1500, '?');
    }
  }
  file->read({});
}

TEST_P(FileSystemTest, ServesManyThreads) {
  const auto file = files_->open(folder_ / "sub/a-1.tar");
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t offset = (i * 7919 + t * 104'729) % 290'000;
        std::vector<std::byte> out(9000);
        file->read_exactly(offset, out);
        wrong += test::as_text(out) != contents_.substr(offset, out.size());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_P(FileSystemTest, LimitOfReadAll) {
  EXPECT_THAT(files_->open(folder_ / "empty")->read_all(0), IsEmpty());
  const auto file = files_->open(folder_ / "sub/b-1.tar");
  EXPECT_EQ(test::as_text(file->read_all(3)), "bee");
  try {
    file->read_all(2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
  }
}

TEST_P(FileSystemTest, MissingFilesAndFolders) {
  EXPECT_EQ(code_of_open(folder_ / "nobody"), ErrorCode::not_found);
  EXPECT_EQ(code_of_open(folder_ / "one/below"), ErrorCode::not_found);
  EXPECT_EQ(code_of_open(folder_ / "sub"), ErrorCode::not_found);
  EXPECT_THROW(files_->info(folder_ / "nobody"), Error);
  EXPECT_THROW(files_->list(folder_ / "nobody"), Error);
}

TEST_P(FileSystemTest, InfoOfFiles) {
  const FileInfo info = files_->info(folder_ / "one");
  EXPECT_EQ(info, files_->open(folder_ / "one")->info());
  EXPECT_EQ(info.size, 1u);
  EXPECT_NE(info.inode, files_->info(folder_ / "empty").inode);
}

TEST_P(FileSystemTest, ListsFilesBelowSorted) {
  EXPECT_THAT(files_->list(folder_.path()),
              ElementsAre(folder_ / "empty", folder_ / "one", folder_ / "sub/a-1.tar",
                          folder_ / "sub/b-1.tar"));
  EXPECT_TRUE(files_->is_directory(folder_ / "sub"));
  EXPECT_FALSE(files_->is_directory(folder_ / "one"));
  EXPECT_FALSE(files_->is_directory(folder_ / "nobody"));
}

TEST_P(FileSystemTest, GlobsInAnyPart) {
  const std::string a = folder_ / "sub/a-1.tar", b = folder_ / "sub/b-1.tar";
  EXPECT_THAT(files_->glob(folder_ / "sub/*.tar"), ElementsAre(a, b));
  EXPECT_THAT(files_->glob(folder_ / "s?b/[b-z]*"), ElementsAre(b));
  EXPECT_THAT(files_->glob(folder_ / "*"), ElementsAre(folder_ / "empty", folder_ / "one"));
  EXPECT_THAT(files_->glob(folder_ / "*/*/*"), IsEmpty());
  EXPECT_THAT(files_->glob(folder_ / "nobody"), ElementsAre(folder_ / "nobody"));
  EXPECT_THAT(files_->glob(folder_ / "nobody*"), IsEmpty());
  EXPECT_THAT(files_->glob(folder_ / "nobody*/x"), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemTest,
                         ::testing::Values("pread", "io_uring", "mmap", "memory", "faultless"),
                         [](const auto& test) { return test.param; });

TEST(PosixFileSystem, SpecialFiles) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/zero")}) {
    try {
      default_file_system()->open(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
    }
  }
}

TEST(PosixFileSystem, FilesWithoutASize) {
  for (const char* name : {"pread", "mmap", "io_uring"}) {
    try {
      make_file_system(name)->open("/proc/self/status");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("copy it first (/proc/self/status)"));
    }
  }
}

class ChangingFile : public ::testing::TestWithParam<const char*> {};

TEST_P(ChangingFile, IsSeen) {
  const test::TempFolder folder;
  const FileSystemPtr files = make_file_system(GetParam());
  const auto open = [&] { return files->open(folder.write("f", "abc")); };
  auto file = open();
  EXPECT_TRUE(file->unchanged());
  folder.write("f", "abcd");
  EXPECT_FALSE(file->unchanged());
  file = open();
  // Another time: a mapped file is known by its path, and the clock of mtimes is coarse.
  const std::string other = folder.write("other", "abc");
  std::filesystem::last_write_time(
      other, std::filesystem::last_write_time(other) - std::chrono::seconds(5));
  std::filesystem::rename(other, folder / "f");
  EXPECT_FALSE(file->unchanged());
  file = open();
  std::filesystem::remove(folder / "f");
  EXPECT_FALSE(file->unchanged());
  file = open();
  std::filesystem::last_write_time(
      folder / "f", std::filesystem::last_write_time(folder / "f") - std::chrono::seconds(5));
  EXPECT_FALSE(file->unchanged());
}

INSTANTIATE_TEST_SUITE_P(All, ChangingFile, ::testing::Values("pread", "io_uring", "mmap"),
                         [](const auto& test) { return test.param; });

TEST(MakeFileSystem, NamesWhatThereIs) {
  EXPECT_EQ(default_file_system()->name(), "pread");
  EXPECT_EQ(make_file_system("mmap")->name(), "mmap");
  try {
    make_file_system("nfs");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("io_uring"));
  }
}

TEST(MemoryFileSystem, ReplacedOpenFile) {
  MemoryFileSystem files;
  files.add("a", "old");
  const auto before = files.open("a");
  files.add("a", "new!");
  EXPECT_NE(files.info("a"), before->info());
  EXPECT_FALSE(before->unchanged());
  EXPECT_TRUE(files.open("a")->unchanged());
  EXPECT_EQ(test::as_text(before->read_all(10)), "old");
  files.remove("a");
  EXPECT_THROW(files.open("a"), Error);
}

}  // namespace
}  // namespace penstock
