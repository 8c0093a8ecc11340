// The upper bound of what a run of one element at a time would hold.
#include "pipeline/engine/memory/held_bytes.h"

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/memory/slots.h"

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

/// A buffer of three records of 200 bytes, of which only a few bytes are viewed.
class SharedRecords : public testing::Test {
 protected:
  std::string_view text(std::size_t at) const {
    return {reinterpret_cast<const char*>(buffer_->data()) + at, 4};
  }
  void note(std::initializer_list<std::size_t> ends) { buffer_->held_mark()->add_records(ends); }
  WorkItem two_texts(std::size_t a, std::size_t b) const {
    WorkItem item;
    item.element =
        Element({{"a", Tensor::bytes(text(a), buffer_)}, {"b", Tensor::bytes(text(b), buffer_)}});
    return item;
  }

  static constexpr std::size_t kRecord = 200;
  const std::shared_ptr<Memory> memory_ = std::make_shared<Memory>(1 << 20, Allocator::heap());
  std::uint64_t promised_ = 0;
  BufferPtr buffer_ = memory_->allocate(3 * kRecord, promised_);
};

TEST_F(SharedRecords, ViewsOfElements) {
  note({200, 400, 600});
  HeldBytes& stages = memory_->held().make();
  std::vector<WorkItem> work{two_texts(10, 100), two_texts(210, 390), two_texts(400, 596)};
  note_views(work);
  std::vector<ElementRef> items;
  for (WorkItem& item : work) {
    items.push_back(ref_to(Payload::make(std::move(item.element)), 0));
    hold(items.back(), stages);
  }
  const std::uint64_t record = Memory::rounded(kRecord);
  EXPECT_EQ(sum_of(memory_->held()), 3 * record);
  EXPECT_EQ(take_from_holder(std::span(items).first(2)), 2 * record);
}

TEST_F(SharedRecords, TextsOfASlot) {
  const Spec spec({{"a", DType::bytes, {}}, {"b", DType::bytes, {}}});
  const SlotLayout layout(spec, 3);
  Slot slot(layout, Allocator::heap());
  std::vector<WorkItem> work{two_texts(10, 100), two_texts(210, 390), two_texts(400, 596)};
  ASSERT_EQ(slot.store_fitting(work, 0), 3U);
  EXPECT_EQ(slot.text_bytes(), 6 * Memory::rounded(4)) << "nothing is known of records";
  note({200, 400, 600});
  EXPECT_EQ(slot.text_bytes(), 3 * Memory::rounded(kRecord));
}

TEST_F(SharedRecords, ViewsInAnyOrder) {
  note({200, 400, 500});
  SharedViews views;
  const auto add = [&](std::size_t at, std::size_t bytes) {
    return views.add(*buffer_, buffer_->data() + at, bytes);
  };
  const std::uint64_t record = Memory::rounded(kRecord);
  EXPECT_EQ(add(300, 5), record);
  EXPECT_EQ(add(399, 1), 0U) << "the same record";
  EXPECT_EQ(add(10, 5), record) << "one before";
  EXPECT_EQ(add(450, 5), Memory::rounded(100)) << "one behind the next";
  views.next();
  EXPECT_EQ(add(450, 5), Memory::rounded(100)) << "for another element";
  EXPECT_EQ(add(500, 0), Memory::rounded(100)) << "an empty text at the end";
  const BufferPtr other = buffer_;  // now it is shared
  EXPECT_EQ(add(550, 30), Memory::rounded(30)) << "behind all records";
  EXPECT_EQ(add(560, 0), Memory::rounded(0));
  EXPECT_EQ(add(0, 5), record);
}

TEST_F(SharedRecords, UsedAgain) {
  note({200, 400});
  EXPECT_EQ(buffer_->held_mark()->records().size(), 2U);
  const std::byte* const data = buffer_->data();
  buffer_ = {};
  buffer_ = memory_->allocate(3 * kRecord, promised_);
  ASSERT_EQ(buffer_->data(), data);
  EXPECT_TRUE(buffer_->held_mark()->records().empty());
}

}  // namespace held_bytes_test
}  // namespace penstock
