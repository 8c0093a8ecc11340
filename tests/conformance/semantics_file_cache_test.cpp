// Caches in files: when they are complete, for whom, and what happens to what is not.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <sys/resource.h>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::counting;
using test::expect_error;
using test::failing_at;
using test::iota;
using test::numbers;
using test::read_file;
using test::run;
using test::TempFolder;
using test::values;
using test::x_of;

Element draw(Element element, Rng& rng) {
  element.set("x", Tensor::scalar(static_cast<std::int64_t>(rng.below(1000000))));
  return element;
}

TEST(FileCache, ReplaysTheFirstCompletePassInAnyRun) {
  for (const int threads : {1, 8}) {
    const TempFolder folder;
    auto made = std::make_shared<std::atomic<int>>(0);
    const Dataset cached = counting(numbers(50), made).cache(folder / "cache");
    const std::string all = run(numbers(50));
    EXPECT_EQ(run(cached, {.threads = threads}), all);
    EXPECT_EQ(run(cached, {.threads = threads}), all);
    EXPECT_EQ(run(cached.repeat(2), {.epochs = 2, .threads = threads}),
              all + " " + all + " ;" + all + " " + all + " ;");
    EXPECT_EQ(*made, 50);
    EXPECT_EQ(run(cached.batch(7), {.threads = threads}), run(numbers(50).batch(7)));
    EXPECT_FALSE(std::filesystem::exists(folder / "cache.partial"));
  }
}

TEST(FileCache, AlsoWithinOneRun) {
  const TempFolder folder;
  auto made = std::make_shared<std::atomic<int>>(0);
  const Dataset cached = counting(numbers(3), made).cache(folder / "cache");
  EXPECT_EQ(run(cached.repeat(3), {.epochs = 2}), "0 1 2 0 1 2 0 1 2 ;0 1 2 0 1 2 0 1 2 ;");
  EXPECT_EQ(*made, 3);
  const TempFolder other;
  const Dataset both = numbers(3).cache(other / "cache");
  EXPECT_EQ(run(both.concatenate(both)), "0 1 2 0 1 2") << "the second does not write";
  EXPECT_EQ(run(numbers(0).cache(other / "empty").repeat(2)), "");
}

TEST(FileCache, PartialPass) {
  const TempFolder folder;
  test::LogCapture log;
  auto made = std::make_shared<std::atomic<int>>(0);
  const Dataset cached = counting(numbers(100'000), made).cache(folder / "cache");
  EXPECT_EQ(run(cached.take(5).repeat(2), {.threads = 1}), "0 1 2 3 4 0 1 2 3 4");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 0);
  EXPECT_EQ(log.count("take(k).cache().repeat()"), 1U);
  EXPECT_EQ(run(counting(numbers(6), made).take(5).cache(folder / "cache").repeat(2)),
            "0 1 2 3 4 0 1 2 3 4");
  EXPECT_TRUE(std::filesystem::exists(folder / "cache"));
}

TEST(FileCache, InterruptedAndReopened) {
  const TempFolder folder;
  const Dataset cached = numbers(50'000).cache(folder / "cache");
  folder.write("cache.partial", test::noise(5000));  // a killed run left that
  {
    Iterator iterator = cached.take(10).iterate({.threads = 1});
    while (iterator.next().has_value()) {
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "cache"));
  EXPECT_FALSE(std::filesystem::exists(folder / "cache.partial"));
  EXPECT_EQ(values(cached), iota(50'000));
  EXPECT_EQ(values(cached), iota(50'000));
}

TEST(FileCache, BelongsToItsGraph) {
  const TempFolder folder;
  const std::string path = folder / "cache";
  EXPECT_EQ(run(numbers(3).cache(path)), "0 1 2");
  EXPECT_EQ(run(numbers({7, 8}).cache(path)), "7 8") << "another source";
  EXPECT_EQ(run(numbers({7, 8}).map([](Element e) { return e; }, {.name = "a"}).cache(path)),
            "7 8");
  auto made = std::make_shared<std::atomic<int>>(0);
  EXPECT_EQ(run(counting(numbers({7, 8}), made).cache(path)), "7 8") << "another name";
  EXPECT_EQ(*made, 2);
  // Where nothing is random the seed does not matter.
  EXPECT_EQ(run(counting(numbers({7, 8}), made).cache(path), {.seed = 9}), "7 8");
  EXPECT_EQ(*made, 2);
  const Dataset random = numbers(20).map(draw).cache(path);
  EXPECT_EQ(run(random, {.seed = 1}), run(numbers(20).map(draw), {.seed = 1}));
  EXPECT_EQ(run(random, {.seed = 2}), run(numbers(20).map(draw), {.seed = 2}));
}

TEST(FileCache, SnapshotsOfSeveralGraphs) {
  const TempFolder folder;
  const std::string path = folder / "snapshots";
  auto made = std::make_shared<std::atomic<int>>(0);
  const Dataset a = counting(numbers(3), made).snapshot(path);
  const Dataset b = counting(numbers(4), made).snapshot(path);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(a), "0 1 2");
    EXPECT_EQ(run(b), "0 1 2 3");
  }
  EXPECT_EQ(*made, 7);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 2);
  const Dataset nowhere = numbers(3).snapshot(folder / "none/none");
  const std::vector<Error> errors = test::errors(nowhere);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::not_found);
}

TEST(FileCache, PassThatCouldNotBegin) {
  const TempFolder folder;
  auto opened = std::make_shared<std::atomic<int>>(0);
  const Dataset cached = Dataset(make_generate_source(
                                     [opened]() -> Generator {
                                       if (++*opened == 1) {
                                         throw Error(ErrorCode::unavailable, "not yet");
                                       }
                                       return [next = std::int64_t{0}](Element& out) mutable {
                                         out = test::x_element(next);
                                         return next++ < 3;
                                       };
                                     },
                                     test::x_spec(), "opened late"))
                             .cache(folder / "cache");
  EXPECT_EQ(run(cached, {.epochs = 3}), "E ;0 1 2 ;0 1 2 ;");
  EXPECT_EQ(*opened, 2) << "the third epoch reads the file";
  EXPECT_TRUE(std::filesystem::exists(folder / "cache"));
}

// F8.
TEST(FileCache, FullDisk) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const std::string all = run(numbers(500));
  int places = 0;
  for (rlim_t room = 0; room < 60'000; room += 1500, ++places) {
    const TempFolder folder;
    test::LogCapture log;
    auto made = std::make_shared<std::atomic<int>>(0);
    const Dataset cached = counting(numbers(500), made).cache(folder / "cache").repeat(2);
    const rlimit small{room, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string got = run(cached);
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(got, all + " " + all) << room;
    const bool kept = std::filesystem::exists(folder / "cache");
    EXPECT_EQ(*made, kept ? 500 : 1000) << room;
    EXPECT_LE(log.count("continuing without the file"), kept ? 0U : 1U);
    EXPECT_FALSE(std::filesystem::exists(folder / "cache.partial"));
    EXPECT_EQ(run(cached), all + " " + all) << room;  // there is room again
  }
  std::signal(SIGXFSZ, handler);
  test::figure("F8",
               "cache: the disk full at %d places: the elements are right at each, the file "
               "whole or not there",
               places);
}

TEST(FileCache, HasOneWriter) {
  const TempFolder folder;
  const Dataset cached = numbers(5000).cache(folder / "cache");
  Iterator first = cached.batch(1).iterate({.slots = 1});
  EXPECT_TRUE(first.next().has_value());
  const std::vector<Error> errors = test::errors(cached);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::unavailable);
  EXPECT_EQ(errors[0].where().shard, folder / "cache");
  EXPECT_NE(errors[0].where().stage.find("cache"), std::string::npos);
  std::int64_t count = 1;
  while (first.next().has_value()) ++count;
  EXPECT_EQ(count, 5000);
  EXPECT_EQ(values(cached).size(), 5000U);
}

TEST(FileCache, DoesNotOverwriteWhatIsNoCache) {
  const TempFolder folder;
  for (const std::string& contents : {std::string("thesis"), test::noise(5000), std::string()}) {
    const std::string path = folder.write("thesis.tex", contents);
    const std::vector<Error> errors = test::errors(numbers(3).cache(path));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].code(), ErrorCode::invalid_argument);
    EXPECT_EQ(read_file(path), contents);
  }
  EXPECT_EQ(test::errors(numbers(3).cache(folder.path())).at(0).code(),
            ErrorCode::invalid_argument);
  expect_error(ErrorCode::invalid_argument, "file", [] { (void)numbers(3).cache(""); });
}

/// Returns where the records of a cache file begin: behind the header and the marks.
std::size_t records_at(const std::string& cache) {
  std::uint64_t marks = 0;
  std::memcpy(&marks, cache.data() + 80, sizeof(marks));
  return 128 + marks;
}

TEST(FileCache, KnowsDamage) {
  const TempFolder folder;
  const std::string path = folder / "cache";
  const Dataset cached = numbers(10).cache(path);
  (void)run(cached);
  const std::string good = read_file(path);
  ASSERT_GT(good.size(), 1000U);
  const std::size_t head = records_at(good);
  std::size_t whole = 0;
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    folder.write("cache", bad);
    const std::string result = run(cached);
    if (at < 17 || (at >= 64 && at < 72)) continue;  // no cache, or of another graph
    whole += result == "0 1 2 3 4 5 6 7 8 9" ? 1 : 0;
    EXPECT_TRUE(result == "E" || std::count(result.begin(), result.end(), 'E') == 1 || at < head)
        << at << ": " << result;
  }
  EXPECT_LE(whole, head / 7 + 1) << "only the filling of the header and the marks are not checked";
  for (const std::size_t size : {good.size() - 1, good.size() / 2, std::size_t{200}}) {
    folder.write("cache", good.substr(0, size));
    EXPECT_EQ(test::errors(cached).at(0).code(), ErrorCode::data_loss) << size;
  }
}

TEST(FileCache, DamagedRecord) {
  const TempFolder folder;
  const std::string path = folder / "cache";
  const Dataset cached = numbers(4).cache(path);
  (void)run(cached);
  std::string bytes = read_file(path);
  const std::size_t second = records_at(bytes) + 128;
  bytes[second + 64] = static_cast<char>(~bytes[second + 64]);  // its values
  folder.write("cache", bytes);
  EXPECT_EQ(run(cached), "0 E 2 3");
  EXPECT_EQ(run(cached.batch(2), {.on_error = OnError::skip}), "0 2 | 3");
  const Error error = test::errors(cached).at(0);
  EXPECT_EQ(error.code(), ErrorCode::data_loss);
  EXPECT_EQ(error.where().shard, path);
  EXPECT_EQ(error.where().offset, static_cast<std::int64_t>(second));
  EXPECT_EQ(error.where().index, 1);
}

TEST(FileCache, KeepsNoErrorsButWhereElementsCameFrom) {
  const TempFolder folder;
  const Dataset cached = failing_at(numbers(3), 1).cache(folder / "cache");
  EXPECT_EQ(run(cached.repeat(2)), "0 E 2 0 2");
  EXPECT_EQ(run(cached), "0 2");
  const Error error = test::errors(failing_at(cached, 2)).at(0);
  EXPECT_EQ(error.where().shard, "numbers");
  EXPECT_EQ(error.where().index, 2);
  EXPECT_EQ(error.where().offset, 16);
}

TEST(FileCache, DoesNotChangeWhatRandomStagesBehindItDraw) {
  const TempFolder folder;
  const Dataset cached = numbers(20).cache(folder / "cache");
  const RunOptions options{.seed = 3, .epochs = 3};
  const std::string expected = run(numbers(20).map(draw), options);
  EXPECT_EQ(run(cached.map(draw), options), expected);
  EXPECT_EQ(run(cached.map(draw), options), expected) << "from the file";
  EXPECT_EQ(run(cached.repeat(3).map(draw), {.seed = 3}),
            run(numbers(20).cache().repeat(3).map(draw), {.seed = 3}));
}

TEST(FileCache, IsRestoredWhetherItIsFullOrNot) {
  for (const bool keep_file : {false, true}) {
    const TempFolder folder;
    const Dataset dataset = failing_at(numbers(9), 4).cache(folder / "cache").repeat(2);
    const std::vector<std::string> expected{"0", "1", "2", "3", "E", "5", "6", "7", "8",
                                            "0", "1", "2", "3", "5", "6", "7", "8"};
    std::vector<std::string> states;
    {
      Iterator iterator = dataset.iterate();
      for (std::size_t i = 0; i <= expected.size(); ++i) {
        states.push_back(iterator.save());
        if (i < expected.size()) (void)iterator.next();
      }
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (!keep_file) std::filesystem::remove(folder / "cache");
      Iterator restored = dataset.restore(states[i]);
      std::vector<std::string> rest;
      for (Next next = restored.next(); !next.is_end(); next = restored.next()) {
        rest.push_back(next.is_error() ? "E" : test::text_of(*next));
      }
      EXPECT_EQ(rest, std::vector<std::string>(expected.begin() + static_cast<std::ptrdiff_t>(i),
                                               expected.end()))
          << i << " " << keep_file;
    }
  }
}

TEST(FileCache, BoundedMemory) {
  const TempFolder folder;
  const Dataset large = numbers(5000).map(
      [](const Element& in, Element& out, Rng&) {
        for (std::int64_t& value : out["big"].mutable_values<std::int64_t>()) value = x_of(in);
      },
      {.name = "large", .output = Spec({{"big", DType::i64, {1000}}})});
  const Dataset cached = large.cache(folder / "cache").batch(4);
  for (int pass = 0; pass < 2; ++pass) {
    Iterator iterator = cached.iterate({.threads = 2, .memory_bytes = 32 << 20});
    std::int64_t expected = 0;
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      ASSERT_TRUE(next.has_value()) << next.error().what();
      EXPECT_EQ((*next)[0][3].to_vector<std::int64_t>()[999], expected + 3);
      expected += 4;
    }
    EXPECT_EQ(expected, 5000);
    EXPECT_LE(iterator.stats().memory.peak_bytes, 32U << 20);
  }
  EXPECT_GT(std::filesystem::file_size(folder / "cache"), 40'000'000U);
}

TEST(FileCache, KeepsEmptyTexts) {
  const TempFolder folder;
  const std::string path = folder.write("lines.txt", "a\n\nb\n\n\nc\n\n");
  Iterator iterator = text_lines({path}).cache(folder / "cache").repeat(2).iterate();
  std::string got;
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    ASSERT_FALSE(next.is_error()) << next.error().what();
    got += std::string((*next)["line"].bytes_at()) + "|";
  }
  EXPECT_EQ(got, "a||b|||c||a||b|||c||");
}

}  // namespace
}  // namespace penstock
