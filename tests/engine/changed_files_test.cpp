// Files that another process writes to during a run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include <penstock/dataset.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "tests/support/files.h"
#include "tests/support/tar.h"

namespace penstock {
namespace changed_files_test {

using test::TempFolder;

constexpr int kRecords = 52;
constexpr std::size_t kBytes = 20'000;

/// Returns record `i` of the data, or of other data of the same size.
std::string record(int i, bool other) {
  return test::noise(kBytes, static_cast<std::uint64_t>(2 * i + (other ? 1 : 0)));
}

struct stat stat_of(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(::stat(path.c_str(), &st), 0);
  return st;
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/// Writes over a file in place and sets its mtime back. The kernel's clock of inodes ticks every
/// few milliseconds; this returns once the ctime is another.
void write_over(const std::string& path, const std::string& contents) {
  const struct stat before = stat_of(path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::pwrite(fd, contents.data(), contents.size(), 0),
            static_cast<ssize_t>(contents.size()));
  const timespec times[2] = {before.st_atim, before.st_mtim};
  do {
    ASSERT_EQ(::futimens(fd, times), 0);
  } while (same_time(stat_of(path).st_ctim, before.st_ctim));
  ::close(fd);
}

/// A kind of data, as files and as a dataset.
struct Format {
  const char* name;
  bool views;  ///< elements are views of a mapped file
  /// Returns the files' names and contents.
  std::function<std::vector<std::pair<std::string, std::string>>(bool other)> files;
  std::function<Dataset(const std::string& folder, FileSystemPtr files)> dataset;
};

std::string numbers_text(const std::string& bytes) {
  std::string text;
  for (std::size_t i = 0; i < 1000; ++i) {
    text += (i > 0 ? "," : "") + std::to_string(100 + static_cast<unsigned char>(bytes[i]));
  }
  return text + "\n";
}

std::string columns_text() {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += (i > 0 ? ",c" : "c") + std::to_string(i);
  return text + "\n";
}

using Files = std::vector<std::pair<std::string, std::string>>;

std::vector<Format> formats() {
  return {
      {"tar", true,
       [](bool other) {
         std::string tar;
         for (int i = 0; i < kRecords; ++i) {
           const std::string bytes = record(i, other);
           tar += test::TarHeader{.name = std::to_string(i) + ".bin", .size = kBytes}.bytes() +
                  test::tar_padded(bytes);
         }
         return Files{{"a.tar", tar + std::string(1024, '\0')}};
       },
       [](const std::string& folder, FileSystemPtr files) {
         TarOptions options;
         options.files = std::move(files);
         return tar({folder + "/a.tar"}, options);
       }},
      {"csv", false,
       [](bool other) {
         std::string csv = columns_text();
         for (int i = 0; i < kRecords; ++i) csv += numbers_text(record(i, other));
         return Files{{"a.csv", csv}};
       },
       [](const std::string& folder, FileSystemPtr files) {
         CsvOptions options;
         options.files = std::move(files);
         return csv({folder + "/a.csv"}, options);
       }},
      {"images", false,
       [](bool other) {
         Files files;
         for (int i = 0; i < kRecords; ++i)
           files.emplace_back("c/" + std::to_string(100 + i) + ".jpg", record(i, other));
         return files;
       },
       [](const std::string& folder, FileSystemPtr files) {
         ImagesOptions options;
         options.files = std::move(files);
         return images(folder, options);
       }},
      {"records", true,
       [](bool other) {
         std::string records;
         for (int i = 0; i < kRecords; ++i) records += record(i, other);
         return Files{{"a.bin", records}};
       },
       [](const std::string& folder, FileSystemPtr files) {
         FixedRecordOptions options;
         options.files = std::move(files);
         return fixed_records({folder + "/a.bin"}, kBytes, options);
       }},
  };
}

/// A hash of all components.
std::int64_t hash_of(const Element& element) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& tensor = element[i];
    if (tensor.dtype() == DType::bytes) {
      for (const char c : tensor.bytes_at()) hash = hash * 31 + static_cast<unsigned char>(c);
    } else {
      for (const std::byte b : std::span(tensor.data(), tensor.nbytes()))
        hash = hash * 31 + static_cast<unsigned char>(b);
    }
  }
  return static_cast<std::int64_t>(hash >> 1);
}

/// Calls `before` with the number of each element on the thread that hashes it, and then hashes it.
Dataset hashed(const Dataset& dataset, std::function<void(std::int64_t)> before) {
  const auto made = std::make_shared<std::atomic<std::int64_t>>(0);
  return dataset.map(
      [before = std::move(before), made](const Element& element) {
        if (before) before((*made)++);
        Element hash;
        hash.set("hash", Tensor::scalar(hash_of(element)));
        return hash;
      },
      {.name = "hash", .output = Spec({{"hash", DType::i64, Shape()}}), .blocking = true});
}

class ChangedFiles : public ::testing::TestWithParam<const char*> {
 protected:
  std::string put(const Format& format) {
    const std::string folder = folder_ / format.name;
    for (const auto& [name, contents] : format.files(false))
      folder_.write(std::string(format.name) + "/" + name, contents);
    return folder;
  }
  void write_over_all(const Format& format, const std::string& folder) {
    for (const auto& [name, contents] : format.files(true))
      write_over(folder + "/" + name, contents);
  }
  static std::vector<std::int64_t> hashes(const Dataset& dataset) {
    std::vector<std::int64_t> all;
    for (const Element& element : hashed(dataset, {}).iterate({.threads = 2}))
      all.push_back(element["hash"].item<std::int64_t>());
    return all;
  }

  TempFolder folder_;
};

// Delivers what was there in the beginning, then an error, and then nothing.
TEST_P(ChangedFiles, EndTheRunUnderEveryPolicy) {
  for (const Format& format : formats()) {
    for (const OnError policy : {OnError::fail, OnError::skip, OnError::retry}) {
      for (const int at : {0, 5, kRecords / 2}) {
        SCOPED_TRACE(format.name + (" at " + std::to_string(at)));
        const std::string folder = put(format);
        const FileSystemPtr files = make_file_system(GetParam());
        const std::vector<std::int64_t> expected = hashes(format.dataset(folder, files));
        ASSERT_EQ(expected.size(), static_cast<std::size_t>(kRecords));
        const Dataset dataset = hashed(format.dataset(folder, files), [&](std::int64_t number) {
          if (number == at) write_over_all(format, folder);
        });
        RunOptions options{.epochs = 10, .threads = 1, .on_error = policy};
        if (policy == OnError::skip) options.max_errors = 1000;  // a budget that is not used
        Iterator run = dataset.iterate(options);
        std::size_t delivered = 0;
        Next next = run.next();
        // Others may have read everything before the change, also for the next epoch.
        while (!next.is_error()) {
          if (next.is_end()) {
            EXPECT_EQ(std::exchange(delivered, 0), expected.size());
            ASSERT_TRUE(run.next_epoch());
          } else {
            ASSERT_LT(delivered, expected.size());
            EXPECT_EQ(next.value()["hash"].item<std::int64_t>(), expected[delivered]) << delivered;
            ++delivered;
          }
          next = run.next();
        }
        ASSERT_TRUE(next.is_error());
        EXPECT_EQ(next.error().code(), ErrorCode::changed);
        EXPECT_NE(next.error().cause().find("has changed since it was found"), std::string::npos)
            << next.error().cause();
        EXPECT_TRUE(run.next().is_end());
        EXPECT_FALSE(run.next_epoch());
      }
    }
  }
}

// A batch keeps its keys, which are copies, whatever happens to the file behind it.
TEST_P(ChangedFiles, KeysOfBatches) {
  const Format format = formats()[0];
  const std::string folder = put(format);
  const FileSystemPtr files = make_file_system(GetParam());
  std::string shifted = test::TarHeader{.name = "first.bin", .size = 0}.bytes();
  for (int i = 0; i + 1 < kRecords; ++i)
    shifted +=
        test::TarHeader{.name = "other" + std::to_string(i) + ".bin", .size = kBytes}.bytes() +
        test::tar_padded(record(i, true));
  const std::string path = folder + "/a.tar";
  shifted.resize(std::filesystem::file_size(path));
  Iterator run = format.dataset(folder, files).keep({"key"}).batch(4).iterate({.threads = 1});
  Next next = run.next();
  ASSERT_TRUE(next.has_value());
  write_over(path, shifted);
  const Element& batch = next.value();
  for (int row = 0; row < 4; ++row) EXPECT_EQ(batch["key"].bytes_at(row), std::to_string(row));
}

// The same, written by another thread at any moment. PENSTOCK_CHANGES: how often.
TEST_P(ChangedFiles, ConcurrentChanges) {
  const char* const changes = std::getenv("PENSTOCK_CHANGES");
  const int rounds = changes != nullptr ? std::atoi(changes) : 1;
  for (const Format& format : formats()) {
    for (int round = 0; round < rounds; ++round) {
      SCOPED_TRACE(format.name + (" in round " + std::to_string(round)));
      const std::string folder = put(format);
      const FileSystemPtr files = make_file_system(GetParam());
      const std::vector<std::int64_t> expected = hashes(format.dataset(folder, files));
      const auto wanted = static_cast<std::int64_t>(
          Rng(1, static_cast<std::uint64_t>(round), 0).below(kRecords - 10));
      std::atomic<std::int64_t> made{0};
      const Dataset dataset = hashed(format.dataset(folder, files), [&](std::int64_t number) {
                                made = number;
                              }).batch(4);
      std::thread writer([&] {
        while (made < wanted) std::this_thread::yield();
        write_over_all(format, folder);
      });
      std::size_t row = 0;
      bool failed = false;
      Iterator run = dataset.iterate({.threads = 2});
      for (Next next = run.next(); !next.is_end(); next = run.next()) {
        failed = failed || next.is_error();
        if (failed) continue;
        for (const std::int64_t hash : next.value()["hash"].to_vector<std::int64_t>())
          EXPECT_EQ(hash, expected[row++]);
      }
      made = wanted;
      writer.join();
    }
  }
}

TEST_P(ChangedFiles, OfAnotherCtimeAloneAreTrustedIfAsked) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(format.name);
    const std::string folder = put(format);
    const FileSystemPtr files = make_file_system(GetParam());
    const std::string path = folder + "/" + format.files(false).front().first;
    for (const bool trust_data : {false, true}) {
      const Dataset dataset = format.dataset(folder, files);
      const struct stat before = stat_of(path);
      do {
        ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
      } while (same_time(stat_of(path).st_ctim, before.st_ctim));
      Iterator run = dataset.iterate({.trust_data = trust_data});
      Next next = run.next();
      ASSERT_EQ(next.is_error(), !trust_data);
      if (trust_data) continue;
      EXPECT_EQ(next.error().code(), ErrorCode::changed);
      EXPECT_NE(next.error().cause().find("--trust-data"), std::string::npos);
      EXPECT_EQ(next.error().where().shard, path);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ChangedFiles, ::testing::Values("pread", "io_uring", "mmap"),
                         [](const auto& io) { return std::string(io.param); });

}  // namespace changed_files_test
}  // namespace penstock
