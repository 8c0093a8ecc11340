// Batches are written where the run's allocator says.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include <penstock/penstock.h>

namespace penstock {
namespace {

class Regions final : public Allocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    std::byte* data = heap().allocate(bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    regions_.emplace_back(data, bytes);
    ++made_;
    return data;
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::erase(regions_, std::pair(data, bytes));
    }
    heap().deallocate(data, bytes);
  }
  bool holds(const Tensor& tensor) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(regions_.begin(), regions_.end(), [&](const auto& region) {
      return tensor.data() >= region.first &&
             tensor.data() + tensor.nbytes() <= region.first + region.second;
    });
  }
  std::size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return regions_.size();
  }
  std::size_t made() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return made_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::byte*, std::size_t>> regions_;
  std::size_t made_ = 0;
};

TEST(InPlace, MemoryOfWorkStages) {
  const auto regions = std::make_shared<Regions>();
  const Dataset dataset = range(10'000).map([](const Element& in) { return in; }).batch(16);
  RunOptions options;
  options.slots = 3;
  options.slot_allocator = regions;
  Iterator iterator = dataset.iterate(options);
  std::int64_t expected = 0;
  for (const Element& batch : iterator) {
    const Tensor& values = batch[0];
    ASSERT_TRUE(regions->holds(values));
    for (const std::int64_t value : values.values<std::int64_t>()) ASSERT_EQ(value, expected++);
  }
  EXPECT_EQ(expected, 10'000);
  EXPECT_LE(regions->made(), 4U);  // recycled, whatever the number of batches
}

TEST(InPlace, BatchesOfALoop) {
  const auto regions = std::make_shared<Regions>();
  RunOptions options;
  options.slots = 1;
  options.slot_allocator = regions;
  Iterator iterator = range(1'000).batch(16).iterate(options);
  std::int64_t rows = 0;
  for (const Element& batch : iterator) rows += batch.valid_rows;
  EXPECT_EQ(rows, 1'000);
  EXPECT_EQ(regions->made(), 1U) << "one that was held made another necessary";
}

TEST(InPlace, LifetimeOfTheAllocator) {
  auto regions = std::make_shared<Regions>();
  const std::weak_ptr<Regions> watched = regions;
  std::optional<Element> kept;
  {
    RunOptions options;
    options.slot_allocator = std::move(regions);
    Iterator iterator = range(8).batch(4).iterate(options);
    kept = iterator.next().value();
  }
  ASSERT_FALSE(watched.expired());
  EXPECT_GE(watched.lock()->size(), 1U);
  EXPECT_EQ((*kept)[0].values<std::int64_t>()[3], 3);
  kept.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace penstock
