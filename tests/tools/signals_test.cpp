#include "tools/penstock/signals.h"

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <penstock/file_system.h>

#include "tests/support/files.h"

namespace penstock::tool {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

/// Reads a byte that was cut away.
void touch(const std::byte* byte) {
  (void)*static_cast<const volatile std::byte*>(byte);
}

TEST(FileSignals, TruncatedMappedFile) {
  const test::TempFolder folder;
  const std::string path = folder.write("cut\x1b.tfrecord", test::noise(100'000));
  const auto run = [&] {
    handle_file_signals();
    const auto file = make_file_system("mmap")->open(path);
    std::filesystem::resize_file(path, 10);
    touch(file->mapped().data() + 90'000);
  };
  EXPECT_EXIT(run(), ExitedWithCode(1), "penstock: .*/cut\\?.tfrecord was truncated, .*--io pread");
}

TEST(FileSignals, OtherSignals) {
  const test::TempFolder folder;
  const std::string path = folder.write("other", test::noise(100'000));
  const auto run = [&](bool sent) {
    handle_file_signals();
    if (sent) raise(SIGBUS);
    std::FILE* const file = std::fopen(path.c_str(), "rb");
    void* const map = ::mmap(nullptr, 100'000, PROT_READ, MAP_SHARED, ::fileno(file), 0);
    std::filesystem::resize_file(path, 10);
    touch(static_cast<const std::byte*>(map) + 90'000);
  };
  EXPECT_EXIT(run(false), KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(run(true), KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace penstock::tool
