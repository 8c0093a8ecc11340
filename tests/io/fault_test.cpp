#include "pipeline/io/fault.h"

#include <thread>

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace penstock {
namespace {

const std::string kText = test::noise(1000);

std::shared_ptr<FaultFileSystem> faulty(FaultOptions options) {
  return std::make_shared<FaultFileSystem>(make_memory_file_system({{"f", kText}}), options);
}

TEST(Fault, FailTheNthUntilACleanPass) {
  std::uint64_t n = 1;
  for (;; ++n) {
    const auto files = faulty({.fail_nth = n});
    bool failed = false;
    try {
      files->info("f");
      const auto file = files->open("f");
      file->read_all(1000);
      file->read_all(1000);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_EQ(error.where().shard, "f");
      failed = true;
    }
    EXPECT_EQ(files->injected(), failed ? 1u : 0u);
    if (!failed) break;
  }
  EXPECT_EQ(n, 5u);
}

TEST(Fault, Splits) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto files = faulty({.seed = seed, .split = true});
    EXPECT_EQ(test::as_text(files->open("f")->read_all(1000)), kText);
    EXPECT_EQ(files->injected(), 0u);
  }
}

TEST(Fault, FlipsExactlyTheBitsAskedFor) {
  const auto files = faulty({.flip_bits = {{"f", {8 * 10 + 3, 8 * 999}}}});
  const auto file = files->open("f");
  std::string expected = kText;
  expected[10] ^= 1 << 3;
  expected[999] ^= 1;
  EXPECT_EQ(test::as_text(file->read_all(1000)), expected);
  EXPECT_EQ(files->injected(), 2u);
  std::string again(1000, ' ');
  ReadRequest request{0, 1000, reinterpret_cast<std::byte*>(again.data()), {}};
  file->read_uncached({&request, 1});
  EXPECT_EQ(again, kText) << "a flip in the cache is not on the medium";
}

TEST(Fault, SeededShares) {
  const auto failures = [](std::uint64_t seed) {
    const auto files = faulty({.seed = seed, .fail_share = 0.3, .flip_share = 0.1});
    const auto file = files->open("f");
    std::string pattern;
    for (int i = 0; i < 300; ++i) {
      std::string out(100, ' ');
      ReadRequest request{0, 100, reinterpret_cast<std::byte*>(out.data()), {}};
      file->read({&request, 1});
      pattern += !request.status.ok() ? 'E' : out != kText.substr(0, 100) ? 'f' : '.';
    }
    EXPECT_EQ(files->injected(),
              static_cast<std::uint64_t>(std::count(pattern.begin(), pattern.end(), 'E') +
                                         std::count(pattern.begin(), pattern.end(), 'f')));
    return pattern;
  };
  const std::string first = failures(1);
  EXPECT_EQ(first, failures(1));
  EXPECT_NE(first, failures(2));
  EXPECT_NEAR(static_cast<double>(std::count(first.begin(), first.end(), 'E')), 90, 35);
  EXPECT_NEAR(static_cast<double>(std::count(first.begin(), first.end(), 'f')), 21, 18);
}

TEST(Fault, Truncation) {
  const auto files = faulty({.truncate_at = {{"f", 10}}});
  EXPECT_EQ(files->info("f").size, 10u);
  const auto file = files->open("f");
  EXPECT_EQ(test::as_text(file->read_all(1000)), kText.substr(0, 10));
  std::byte out[11];
  EXPECT_THROW(file->read_exactly(0, out), Error);
}

TEST(Fault, HangsUntilReleased) {
  const auto files = faulty({.hang_nth = 2});
  const auto file = files->open("f");
  std::atomic<bool> done{false};
  std::jthread reader([&] {
    file->read_all(1000);
    done = true;
  });
  while (files->hanging() == 0) std::this_thread::yield();
  EXPECT_FALSE(done);
  files->release();
  reader.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(files->hanging(), 0);
}

TEST(Fault, Delays) {
  const auto files = faulty({.delay_share = 1, .delay = std::chrono::milliseconds(20)});
  const auto start = std::chrono::steady_clock::now();
  files->open("f")->read_all(1000);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace penstock
