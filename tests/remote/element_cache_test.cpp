// What a worker keeps for several runs: who makes an element, who waits, and what goes first.
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/tensor.h>

#include "pipeline/remote/element_cache.h"

namespace penstock::remote {
namespace {

using Found = ElementCache::Found;
using testing::ElementsAre;

ElementKey key_of(std::uint64_t number) {
  return element_key(&number, sizeof number);
}

/// 4 KiB with what finding it takes.
Element element(int value) {
  Element made;
  made.set("value", Tensor::of<std::int32_t>({894}, std::vector<std::int32_t>(894, value)));
  return made;
}

class Waiter final : public KeptWaiter {
 public:
  void told(std::size_t item, KeptPtr kept) noexcept override {
    all[item] =
        kept ? std::optional(kept->element["value"].values<std::int32_t>()[0]) : std::nullopt;
  }
  std::map<std::size_t, std::optional<int>> all;
};

/// A run that asks for elements by number.
class Asker {
 public:
  Asker(ElementCache& cache, std::uint64_t graph = 1)
      : cache_(cache), graph_(cache.join(key_of(graph))), waiter_(std::make_shared<Waiter>()) {}
  ~Asker() { cache_.leave(graph_); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  std::vector<ElementCache::Answer> look(const std::vector<std::uint64_t>& numbers) {
    std::vector<ElementKey> keys;
    for (const std::uint64_t number : numbers) keys.push_back(key_of(number));
    std::vector<std::uint32_t> items(keys.size());
    std::iota(items.begin(), items.end(), 0U);
    return cache_.look(graph_, keys, items, waiter_);
  }
  Found look_for(std::uint64_t number) { return look({number})[0].found; }
  void give(std::uint64_t number) {
    cache_.give(graph_, key_of(number), element(static_cast<int>(number)), true, 0);
  }
  void fail(std::uint64_t number) { cache_.fail(graph_, key_of(number)); }
  void forget(std::uint64_t number) { cache_.forget(graph_, key_of(number), *waiter_); }
  /// Has it: made, or from the cache.
  bool make(std::uint64_t number) {
    const Found found = look_for(number);
    EXPECT_NE(found, Found::others);
    if (found == Found::mine) give(number);
    return found == Found::mine;
  }
  std::map<std::size_t, std::optional<int>>& told() { return waiter_->all; }

 private:
  ElementCache& cache_;
  const std::uint64_t graph_;
  const std::shared_ptr<Waiter> waiter_;
};

TEST(ElementCache, HasEachElementMadeOnce) {
  ElementCache cache(1 << 20);
  Asker first(cache);
  Asker second(cache);
  EXPECT_EQ(first.look_for(7), Found::mine);
  EXPECT_EQ(second.look_for(7), Found::others);
  EXPECT_TRUE(second.told().empty());
  first.give(7);
  EXPECT_EQ(second.told().at(0), 7);
  const auto again = second.look({7});
  ASSERT_EQ(again[0].found, Found::kept);
  EXPECT_EQ(again[0].kept->element["value"].values<std::int32_t>()[893], 7);
  EXPECT_EQ(cache.figures().hits, 2U);
  EXPECT_EQ(cache.figures().misses, 1U);
}

TEST(ElementCache, OfOneGroupThatHasAnElementTwiceMakesItOnce) {
  ElementCache cache(1 << 20);
  Asker asker(cache);
  const auto found = asker.look({3, 3});
  EXPECT_EQ(found[0].found, Found::mine);
  EXPECT_EQ(found[1].found, Found::others);
  asker.give(3);
  EXPECT_EQ(asker.told().at(1), 3);
}

TEST(ElementCache, TellsThatAMakerFailed) {
  ElementCache cache(1 << 20);
  Asker first(cache);
  Asker second(cache);
  Asker third(cache);
  EXPECT_EQ(first.look_for(1), Found::mine);
  EXPECT_EQ(second.look_for(1), Found::others);
  EXPECT_EQ(third.look_for(1), Found::others);
  first.fail(1);
  EXPECT_EQ(second.told().at(0), std::nullopt);
  EXPECT_EQ(third.told().at(0), std::nullopt);
  EXPECT_EQ(second.look_for(1), Found::mine);
  EXPECT_EQ(third.look_for(1), Found::others);
  third.forget(1);
  third.told().clear();
  second.give(1);
  EXPECT_TRUE(third.told().empty());
}

TEST(ElementCache, OfOtherGraphsSharesNothing) {
  ElementCache cache(1 << 20);
  Asker first(cache, 1);
  Asker other(cache, 2);
  EXPECT_TRUE(first.make(5));
  EXPECT_TRUE(other.make(5));
}

TEST(ElementCache, KeepsWhatARunOfItsGraphMayAskFor) {
  ElementCache cache(1 << 20);
  {
    Asker first(cache);
    EXPECT_TRUE(first.make(5));
    const Asker second(cache);
    EXPECT_GT(cache.figures().bytes, 0U);
  }
  EXPECT_EQ(cache.figures().bytes, 0U);
  Asker third(cache);
  EXPECT_TRUE(third.make(5));
}

TEST(ElementCache, ChargesKeptElementsUntilNobodyHasThem) {
  ElementCache cache(3 * 4096);
  Asker asker(cache);
  asker.make(1);
  const KeptPtr kept = asker.look({1})[0].kept;
  EXPECT_EQ(cache.figures().bytes, 4096U);
  for (std::uint64_t number = 2; number < 20; ++number) asker.make(number);
  EXPECT_EQ(asker.look_for(1), Found::mine) << "it went";
  EXPECT_EQ(cache.figures().bytes, 3U * 4096) << "but counts, since it is on its way";
  EXPECT_EQ(cache.figures().most_bytes, 3U * 4096);
  EXPECT_EQ(kept->element["value"].values<std::int32_t>()[0], 1);
  asker.fail(1);
}

TEST(ElementCache, LetsGoFirstOfWhatAllRunsHaveHad) {
  ElementCache cache(4 * 4096);
  Asker first(cache);
  Asker second(cache);
  for (std::uint64_t number = 0; number < 4; ++number) EXPECT_TRUE(first.make(number));
  // Three of four have not been had by the second.
  EXPECT_FALSE(second.make(2));
  EXPECT_TRUE(first.make(4));  // has the place of 2
  EXPECT_TRUE(first.make(5));  // is not kept
  EXPECT_EQ(cache.figures().evicted, 1U);
  EXPECT_FALSE(second.make(0));
  EXPECT_FALSE(second.make(1));
  EXPECT_FALSE(second.make(3));
  EXPECT_FALSE(second.make(4));
  EXPECT_TRUE(second.make(5));
}

TEST(ElementCache, ForgetsWhatNobodyAskedForForLong) {
  ElementCache cache(4 * 4096);
  Asker first(cache);
  Asker second(cache);
  for (std::uint64_t number = 0; number < 40; ++number) EXPECT_TRUE(first.make(number));
  EXPECT_GT(cache.figures().evicted, 0U);
  EXPECT_TRUE(second.make(0)) << "the oldest are gone";
}

TEST(ElementCache, WithoutRoomGivesWhatIsAwaitedAllTheSame) {
  ElementCache cache(4 * 4096);
  Asker first(cache);
  Asker second(cache);
  for (std::uint64_t number = 0; number < 4; ++number) EXPECT_TRUE(first.make(number));
  EXPECT_EQ(first.look_for(9), Found::mine);
  EXPECT_EQ(second.look_for(9), Found::others);
  first.give(9);
  EXPECT_EQ(second.told().at(0), 9);
  // One that is larger than all of it can't be given.
  ElementCache small(1024);
  Asker third(small);
  Asker fourth(small);
  EXPECT_EQ(third.look_for(1), Found::mine);
  EXPECT_EQ(fourth.look_for(1), Found::others);
  third.give(1);
  EXPECT_EQ(fourth.told().at(0), std::nullopt);
  EXPECT_EQ(small.figures().bytes, 0U);
}

TEST(ElementCache, EvictionForTheLastRun) {
  ElementCache cache(4 * 4096);
  Asker first(cache);
  {
    Asker second(cache);
    for (std::uint64_t number = 0; number < 4; ++number) first.make(number);
  }
  first.make(4);
  EXPECT_FALSE(first.make(4)) << "it has the place of the oldest";
  EXPECT_TRUE(first.make(0));
}

TEST(ElementCache, CopiesTextsVerdictsAndKeys) {
  ElementCache cache(1 << 20);
  Asker asker(cache);
  const std::uint64_t graph = cache.join(key_of(1));
  const std::vector<std::string_view> texts{"a", "", "long enough to lie elsewhere"};
  Element made;
  made.set("text", Tensor::copy_bytes("word"));
  made.set("none", Tensor::copy_bytes(""));
  made.set("texts", Tensor::of_bytes(texts));
  made.set("half", Tensor::of<float>({2, 2}, {1, 2, 3, 4}).slice(1, 0, 1));
  made.set("fifth", Tensor::scalar<std::int64_t>(-1));
  EXPECT_EQ(asker.look_for(1), Found::mine);
  cache.give(graph, key_of(1), made, true, -3);
  EXPECT_EQ(asker.look_for(2), Found::mine);
  cache.give(graph, key_of(2), Element(), false, 0);
  made = Element();
  const KeptPtr kept = asker.look({1})[0].kept;
  EXPECT_EQ(kept->key, -3);
  EXPECT_EQ(kept->element["text"].bytes_at(), "word");
  EXPECT_EQ(kept->element["none"].bytes_at(), "");
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(kept->element["texts"].bytes_at(static_cast<std::int64_t>(i)), texts[i]);
  EXPECT_THAT(kept->element["half"].to_vector<float>(), ElementsAre(1, 3));
  EXPECT_EQ(kept->element["fifth"].item<std::int64_t>(), -1);
  const KeptPtr verdict = asker.look({2})[0].kept;
  EXPECT_FALSE(verdict->keep);
  EXPECT_TRUE(verdict->element.empty());
  cache.leave(graph);
}

}  // namespace
}  // namespace penstock::remote
