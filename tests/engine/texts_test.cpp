// Records of byte strings that are read straight into batches: nobody can tell.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "pipeline/core/begin_run.h"
#include "tests/support/files.h"
#include "tests/support/numbers.h"

#include "pipeline/stage/support.h"

namespace penstock {
namespace texts_test {

using test::run;

/// Records of 0 to 40 bytes in two shards' worth of blocks, of which some are damaged, some can be
/// read by `read` only, and some fail twice for the moment.
class TextSource final : public Source {
 public:
  struct Options {
    bool textual = true;
    bool throws = false;        // read_texts always
    std::uint64_t bad = 0;      // every one with this remainder by 97; 0: none
    std::uint64_t odd = 0;      // likewise
    std::uint64_t passing = 0;  // likewise
  };
  explicit TextSource(Options options) : options_(options), tries_(kCount) {}

  static constexpr std::uint64_t kCount = 1500;

  std::string name() const override { return "texts"; }
  void describe(Description&) const override {}
  Spec spec() const override { return Spec({{"text", DType::bytes, {}}}); }
  std::optional<std::uint64_t> size() const override { return kCount; }
  bool blocking() const override { return true; }
  std::uint64_t record_bytes(std::uint64_t index) const override { return text(index).size(); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    for (ReadItem& item : items) {
      ++read_;
      if (is(options_.bad, item.index)) {
        item.status = Error(ErrorCode::data_loss, "it is bad", locate(item.index));
      } else if (is(options_.passing, item.index) && tries_[item.index]++ < 2) {
        item.status = Error(ErrorCode::unavailable, "not now", locate(item.index));
      } else {
        try {
          BufferPtr owner;
          const std::string_view view = keep(item.index, owner, context);
          item.element = Element({{"text", Tensor::bytes(view, owner)}});
        } catch (const Error& error) {
          item.status = error;
        }
      }
    }
  }
  bool textual() const override { return options_.textual; }
  void read_texts(std::span<const std::uint64_t> indices, std::span<std::string_view> texts,
                  std::span<BufferPtr> owners, std::vector<std::size_t>& left,
                  ReadContext& context) const override {
    for (std::size_t k = indices.size(); k-- > 0;) {  // in no order of its own
      const std::uint64_t index = indices[k];
      if (is(options_.bad, index) || is(options_.odd, index) || is(options_.passing, index)) {
        left.push_back(k);
        continue;
      }
      texts[k] = keep(index, owners[k], context);
      ++direct_;
    }
    if (options_.throws) throw std::runtime_error("whatever");
  }

  std::uint64_t read_one_by_one() const { return read_; }
  std::uint64_t read_directly() const { return direct_; }

 private:
  static bool is(std::uint64_t remainder, std::uint64_t index) {
    return remainder != 0 && index % 97 == remainder;
  }
  static std::string text(std::uint64_t index) {
    return std::string(index % 41, static_cast<char>('a' + index % 26));
  }
  static std::string_view keep(std::uint64_t index, BufferPtr& owner, ReadContext& context) {
    const std::string all = text(index);
    owner = context.allocate(all.size());
    std::memcpy(owner->data(), all.data(), all.size());
    return {reinterpret_cast<const char*>(owner->data()), all.size()};
  }

  const Options options_;
  mutable std::vector<std::atomic<int>> tries_;
  mutable std::atomic<std::uint64_t> read_{0};
  mutable std::atomic<std::uint64_t> direct_{0};
};

struct Case {
  std::string name;
  TextSource::Options options;
};

class Texts : public testing::TestWithParam<Case> {};

/// The same source, read straight and by elements.
TEST_P(Texts, ComeAsElementsWould) {
  for (const int threads : {1, 2}) {
    for (const std::size_t rows : {7, 600}) {
      for (const OnError on_error : {OnError::skip, OnError::fail}) {
        const RunOptions options{
            .threads = threads, .on_error = on_error, .retries = 3, .retry_ms = 0};
        const auto straight = std::make_shared<TextSource>(GetParam().options);
        TextSource::Options by_elements = GetParam().options;
        by_elements.textual = false;
        const auto plain = std::make_shared<TextSource>(by_elements);
        const std::string found = run(Dataset(straight).batch(rows), options);
        EXPECT_EQ(found, run(Dataset(plain).batch(rows), options));
        EXPECT_NE(found, "");
        EXPECT_GT(straight->read_directly(), TextSource::kCount / 2);
        EXPECT_EQ(plain->read_directly(), 0U);
        const auto again = std::make_shared<TextSource>(GetParam().options);
        const auto plain_again = std::make_shared<TextSource>(by_elements);
        const std::vector<Error> errors = test::errors(Dataset(again).batch(rows), options);
        const std::vector<Error> expected = test::errors(Dataset(plain_again).batch(rows), options);
        ASSERT_EQ(errors.size(), expected.size());
        for (std::size_t i = 0; i < errors.size(); ++i) {
          EXPECT_STREQ(errors[i].what(), expected[i].what());
          EXPECT_EQ(errors[i].where().index, expected[i].where().index);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, Texts,
                         testing::Values(Case{"sound", {}}, Case{"bad", {.bad = 5}},
                                         Case{"odd", {.odd = 7}}, Case{"passing", {.passing = 9}},
                                         Case{"all", {.bad = 5, .odd = 6, .passing = 7}},
                                         Case{"throwing", {.throws = true, .bad = 5}}),
                         [](const auto& test) { return test.param.name; });

TEST(Texts, ReadsByElement) {
  const auto source = std::make_shared<TextSource>(TextSource::Options{.odd = 7});
  run(Dataset(source).batch(100));
  EXPECT_EQ(source->read_one_by_one(), (TextSource::kCount - 7 + 96) / 97);
  EXPECT_EQ(source->read_directly() + source->read_one_by_one(), TextSource::kCount);
}

TEST(Texts, AreElementsWhereSomethingIsDoneWithThem) {
  const auto source = std::make_shared<TextSource>(TextSource::Options{});
  run(Dataset(source).map([](Element element) { return element; }).batch(100));
  run(Dataset(source).prefetch(4));
  EXPECT_EQ(source->read_directly(), 0U);
}

TEST(Texts, AreCountedOnce) {
  for (const bool textual : {true, false}) {
    const auto source =
        std::make_shared<TextSource>(TextSource::Options{.textual = textual, .bad = 5, .odd = 6});
    Iterator iterator = Dataset(source).batch(100).iterate({.on_error = OnError::skip});
    std::uint64_t bytes = 0;
    std::uint64_t rows = 0;
    for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      const Tensor& texts = next.value()["text"];
      rows += static_cast<std::uint64_t>(texts.dim(0));
      for (std::int64_t i = 0; i < texts.dim(0); ++i) bytes += texts.bytes_at(i).size();
    }
    const StageStats stage = iterator.stats().stages.front();
    EXPECT_EQ(stage.items, rows) << textual;
    EXPECT_EQ(stage.bytes, bytes) << textual;
  }
}

TEST(Texts, FitAnyBudget) {
  const auto expected = run(Dataset(std::make_shared<TextSource>(TextSource::Options{})).batch(20));
  for (const std::uint64_t memory : {30U << 10, 60U << 10, 200U << 10}) {
    const auto source = std::make_shared<TextSource>(TextSource::Options{});
    EXPECT_EQ(run(Dataset(source).batch(20), {.threads = 2, .memory_bytes = memory}), expected);
  }
}

// Lines that are read together share a buffer. Made one at a time, each has its own.
TEST(Texts, OfOneAtATimeFitWhereTheyFitTogether) {
  const test::TempFolder folder;
  std::string lines;
  for (std::size_t i = 0; i < 20'000; ++i) lines += std::string(20 + i % 130, 'x') + "\n";
  folder.write("lines", lines);
  const Dataset batches = text_lines({folder / "lines"})
                              .map([](Element element) { return element; })
                              .shuffle({.buffer = 1000})
                              .batch(64);
  const auto count = [](const Dataset& dataset, int threads, bool alone = false) {
    Iterator iterator =
        begin_run(dataset, {.threads = threads, .memory_bytes = 32 << 10}, {.alone = alone});
    int found = 0;
    while (Next next = iterator.next()) {  // lets go of each batch before the next
      EXPECT_TRUE(next.has_value()) << next.error().what();
      if (!next.has_value()) break;
      ++found;
    }
    return found;
  };
  for (const int threads : {1, 2, 4}) EXPECT_EQ(count(batches, threads), 313);
  EXPECT_EQ(count(batches.take(20), 2, true), 20);
}

}  // namespace texts_test
}  // namespace penstock
