// The upper bound of what a run of one element at a time would hold.
#include "pipeline/engine/memory/held_bytes.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/engine/memory/memory.h"

namespace penstock {
namespace held_bytes_test {

/// Returns the least bytes that the sum does not exceed.
std::uint64_t sum_of(HeldBytesOfRun& run) {
  std::uint64_t most = 0;
  while (run.exceeds(most)) ++most;
  return most;
}

TEST(HeldBytes, SumOfTheMostSinceTheLastRestart) {
  HeldBytesOfRun run;
  HeldBytes& stages = run.make();
  HeldBytes& group = run.make();
  HeldBytes& slots = run.make(100);  // bytes that do not count
  EXPECT_FALSE(run.grew());
  stages.add(30);
  stages.take_off(20);
  stages.add(15);
  EXPECT_TRUE(run.grew());
  EXPECT_EQ(sum_of(run), 30U);
  EXPECT_FALSE(run.grew());
  group.raise(7);
  group.raise(5);
  EXPECT_EQ(sum_of(run), 37U);
  slots.add(100);
  EXPECT_EQ(sum_of(run), 37U);
  slots.add(100);
  EXPECT_EQ(sum_of(run), 137U);
  slots.take_off(200);
  run.restart();
  EXPECT_TRUE(run.grew());
  EXPECT_EQ(sum_of(run), 25U);
}

TEST(HeldBytes, MarksOfBuffers) {
  HeldBytesOfRun run;
  HeldBytes& first = run.make();
  HeldBytes& second = run.make();
  HeldMark mark(50);
  mark.hold(first);
  mark.hold(second);  // a buffer has one holder
  EXPECT_EQ(sum_of(run), 50U);
  EXPECT_EQ(mark.drop_view(10), 0U) << "no views were noted";
  EXPECT_EQ(mark.drop(), 50U);
  EXPECT_EQ(mark.drop(), 0U);
  run.restart();
  EXPECT_EQ(sum_of(run), 0U);
  // Views count as if each had memory of its own.
  mark.add_views(40);
  mark.add_views(20);
  mark.hold(second);
  EXPECT_EQ(sum_of(run), 60U);
  EXPECT_EQ(mark.drop_view(40), 40U);
  EXPECT_EQ(mark.drop_view(40), 20U);
  EXPECT_EQ(mark.drop(), 0U);
  HeldMark slot(30, &first);
  slot.hold(second);
  run.restart();
  EXPECT_EQ(sum_of(run), 30U);
}

TEST(HeldBytes, OfTheThreadThatAllocates) {
  const auto memory = std::make_shared<Memory>(1 << 20, Allocator::heap());
  const auto other = std::make_shared<Memory>(1 << 20, Allocator::heap());
  std::uint64_t promised = 0;
  BufferPtr nobodys = memory->allocate(1000, promised);
  EXPECT_EQ(sum_of(memory->held()), 0U);
  std::optional<BufferPtr> held;
  {
    const HeldBytes::Here here(memory->held().make());
    held = memory->allocate(2000, promised);
    EXPECT_EQ(sum_of(memory->held()), Memory::rounded(2000));
    const BufferPtr charge = memory->charged(500);
    EXPECT_EQ(sum_of(memory->held()), Memory::rounded(2000) + 500);
    const BufferPtr of_other = other->allocate(100, promised);
    EXPECT_EQ(sum_of(other->held()), 0U) << "the thread works for another run";
  }
  memory->held().restart();
  EXPECT_EQ(sum_of(memory->held()), Memory::rounded(2000));
  held.reset();
  memory->held().restart();
  EXPECT_EQ(sum_of(memory->held()), 0U);
}

TEST(HeldBytes, ItemsOnTheirWayToAGroup) {
  const auto memory = std::make_shared<Memory>(1 << 20, Allocator::heap());
  HeldBytes& stages = memory->held().make();
  std::uint64_t promised = 0;
  const auto bytes = [](const BufferPtr& buffer, std::int64_t from, std::int64_t count) {
    Element element;
    element.set("x", Tensor(DType::u8, Shape{count}, buffer->data() + from, buffer));
    return element;
  };
  std::vector<WorkItem> work(3);
  {
    const BufferPtr shared = memory->allocate(600, promised);
    work[0].element = bytes(shared, 0, 300);
    work[1].element = bytes(shared, 300, 300);
    work[2].element = bytes(memory->allocate(5000, promised), 0, 1);
  }
  note_views(work);
  std::vector<ElementRef> items;
  for (WorkItem& item : work) {
    items.push_back(ref_to(Payload::make(std::move(item.element)), 0));
    hold(items.back(), stages);
  }
  const std::uint64_t view = Memory::rounded(300);
  const std::uint64_t large = Memory::rounded(5000);
  EXPECT_EQ(sum_of(memory->held()), 2 * view + large);
  const ElementRef kept = items[2];  // by a stage, too
  EXPECT_EQ(take_from_holder(items), 2 * view);
  memory->held().restart();
  EXPECT_EQ(sum_of(memory->held()), large);
}

}  // namespace held_bytes_test
}  // namespace penstock
