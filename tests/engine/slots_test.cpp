// Slots hand on their rows in the order that is asked for, whatever gaps they lie with.
#include "pipeline/engine/memory/slots.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/error.h>

#include "pipeline/engine/memory/memory.h"

namespace penstock {
namespace slots_test {

/// For text that nobody owns; there is none here.
class NoContext final : public ReadContext {
 public:
  BufferPtr allocate(std::size_t bytes) override { return allocate_buffer(bytes); }
};

struct Case {
  std::string what;
  std::vector<std::uint32_t> order;
  std::size_t first;  // row where a large component begins
};

class Orders : public testing::TestWithParam<Case> {};

TEST_P(Orders, OrderOfRows) {
  const std::vector<std::uint32_t>& order = GetParam().order;
  const Spec spec(
      {{"large", DType::i32, {16}}, {"small", DType::i64, {}}, {"text", DType::bytes, {}}});
  const auto memory = std::make_shared<Memory>(std::uint64_t{1} << 20, Allocator::heap());
  const auto pool = std::make_shared<SlotPool>(SlotLayout(spec, 8, 3), 1, memory, nullptr,
                                               std::make_shared<Waker>());
  const Ref<Slot> slot = pool->take(SlotPool::Make::within);
  ASSERT_TRUE(slot);
  const std::byte* const begin = slot->row(0).data(0);
  NoContext context;
  for (std::int32_t row = 0; row < 11; ++row) {
    WorkItem item;
    item.element =
        Element({{"large", Tensor::of<std::int32_t>({16}, std::vector<std::int32_t>(16, row))},
                 {"small", Tensor::scalar<std::int64_t>(100 + row)},
                 {"text", Tensor::copy_bytes("row " + std::to_string(row))}});
    ASSERT_TRUE(slot->store(item, static_cast<std::size_t>(row), context).ok());
  }
  const Element batch = slot->batch(order);
  EXPECT_EQ(batch.valid_rows, static_cast<std::int64_t>(order.size()));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    EXPECT_EQ(batch["large"][at].to_vector<std::int32_t>(),
              std::vector<std::int32_t>(16, static_cast<std::int32_t>(order[i])));
    EXPECT_EQ(batch["small"][at].item<std::int64_t>(), 100 + order[i]);
    EXPECT_EQ(batch["text"].bytes_at(at), "row " + std::to_string(order[i]));
  }
  EXPECT_EQ(batch["large"].data() - begin, static_cast<std::ptrdiff_t>(64 * GetParam().first));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch["small"].data()) % Allocator::kAlignment, 0U);
}

TEST(SlotLayout, OverflowingSizes) {
  const Spec small({{"x", DType::i64, {}}});
  const Spec none({{"x", DType::u8, {0}}});
  const Spec text({{"x", DType::bytes, {}}});
  const Spec large({{"x", DType::u8, {std::int64_t{1} << 61}}, {"y", DType::i64, {}}});
  constexpr std::int64_t kMost = SlotLayout::kMostRows;
  const struct {
    Spec spec;
    std::int64_t rows;
    std::size_t bytes;
  } kFacts[] = {
      {small, 8, 64},
      {small, kMost, std::size_t{1} << 34},
      {small, kMost + 1, SIZE_MAX},
      {small, std::int64_t{1} << 61, SIZE_MAX},
      {small, INT64_MAX, SIZE_MAX},
      {none, kMost, 64},
      {none, INT64_MAX, SIZE_MAX},
      {text, INT64_MAX, SIZE_MAX},
      {large, 1, (std::size_t{1} << 61) + 64},
      {large, 4, SIZE_MAX},
      {large, 8, SIZE_MAX},
  };
  for (const auto& fact : kFacts) {
    EXPECT_EQ(SlotLayout(fact.spec, fact.rows).bytes, fact.bytes)
        << fact.rows << " of " << fact.spec.to_string();
  }
  EXPECT_THROW(SlotLayout(Spec({{"x", DType::i64, {std::int64_t{1} << 61}}}), 1), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Each, Orders,
    testing::Values(Case{"in order", {0, 1, 2, 3, 4, 5, 6, 7}, 0}, Case{"one", {5}, 5},
                    Case{"the first has gone", {1, 2, 3, 4, 5, 6, 7, 8}, 1},
                    Case{"a gap near the end", {0, 1, 2, 3, 4, 6, 7, 8}, 0},
                    Case{"a gap near the start", {0, 2, 3, 4, 5, 6, 7, 8}, 1},
                    Case{"gaps on both sides", {0, 2, 3, 4, 5, 6, 8, 10}, 1},
                    Case{"fewer", {3, 4, 9}, 3},
                    Case{"without room to spare", {3, 4, 5, 6, 7, 8, 9, 10}, 3},
                    Case{"a row used again", {1, 2, 3, 4, 5, 6, 7, 0}, 0},
                    Case{"backwards", {10, 9, 8, 7, 6, 5, 4, 3}, 0}),
    [](const auto& tested) {
      std::string name = tested.param.what;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

}  // namespace slots_test
}  // namespace penstock
