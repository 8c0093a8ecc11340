#include <penstock/towers/variables.h>

#include <sys/mman.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using test::host_store;
using test::list;

/// Memory that the host may not touch, as a GPU's.
class Unreachable final : public Allocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    ++held;
    return static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    --held;
    munmap(data, bytes);
  }
  int held = 0;
};

TEST(Array, LeavesItsMemoryAlone) {
  Unreachable memory;
  {
    Array array(&memory, DType::f32);
    array.resize({3, 5});
    const std::byte* const first = array.bytes();
    array.resize({2, 5});
    array.resize({15});
    EXPECT_EQ(array.bytes(), first);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 4096, 0U) << "it is where it was given";
    array.resize({100});
    const Array moved = std::move(array);
    EXPECT_EQ(moved.size(), 100U);
    EXPECT_EQ(memory.held, 1);
  }
  EXPECT_EQ(memory.held, 0);
}

TEST(Variables, SameValuesOfAllTowers) {
  VariableStore store = host_store(2);
  const VariableOptions options{Initializer::normal(1)};
  Variable& a = (store.tower(0) / "fc").get("weights", {3, 4}, options);
  Variable& b = (store.tower(1) / "fc").get("weights", {3, 4}, {});
  EXPECT_EQ(a.name, "fc/weights");
  EXPECT_NE(&a, &b);
  EXPECT_EQ(list(a.value), list(b.value));
  store.pack();
  EXPECT_EQ(a.value.data(), store.values(0).data());
  EXPECT_EQ(list(a.value), list(b.value));
  EXPECT_EQ(store.gradients(1).size(), 12U);
}

TEST(Variables, ArePackedWithZerosInBetween) {
  VariableStore store = host_store(2);
  for (int tower = 0; tower < 2; ++tower)
    for (const std::int64_t size : {3, 64, 65, 1})
      store.tower(tower).get("v" + std::to_string(size), {size}, {Initializer::constant(2)});
  store.pack();
  const std::vector<std::size_t> offsets{0, 64, 128, 256};
  for (std::size_t v = 0; v < offsets.size(); ++v) EXPECT_EQ(store.offset(v), offsets[v]);
  for (int tower = 0; tower < 2; ++tower) {
    ASSERT_EQ(store.values(tower).size(), 257U);
    ASSERT_EQ(store.gradients(tower).size(), 257U);
    for (std::size_t v = 0; v < offsets.size(); ++v) {
      EXPECT_EQ(store.of(tower)[v]->value.data(), store.values(tower).data() + offsets[v]);
      EXPECT_EQ(store.of(tower)[v]->gradient.data(), store.gradients(tower).data() + offsets[v]);
    }
    for (const std::size_t gap : {3U, 63U, 193U, 255U}) EXPECT_EQ(store.values(tower)[gap], 0);
    EXPECT_THAT(store.gradients(tower), testing::Each(0));
  }
}

TEST(Variables, RulesOfSharing) {
  VariableStore store = host_store(2);
  const Scope first = store.tower(0) / "conv1";
  Variable& created = first.get("weights", {2, 2}, {});
  expect_error(ErrorCode::invalid_argument, "variable conv1/weights exists already", [&] {
    first.get("weights", {2, 2}, {});
  });
  EXPECT_EQ(&first.reuse().get("weights", {2, 2}, {}), &created);
  expect_error(ErrorCode::invalid_argument, "variable conv1/biases does not exist",
               [&] { first.reuse().get("biases", {2}, {}); });
  expect_error(ErrorCode::invalid_argument, "variable conv1/weights has shape [2,2], not [2,3]",
               [&] {
                 (store.tower(1) / "conv1").get("weights", {2, 3}, {});
               });
  expect_error(ErrorCode::invalid_argument, "variable conv2/weights does not exist", [&] {
    (store.tower(1) / "conv2").get("weights", {2, 2}, {});
  });
  expect_error(ErrorCode::invalid_argument, "conv1/weights is not used by every tower",
               [&] { store.pack(); });
}

TEST(Variables, ValuesBySeedAndName) {
  const auto draw = [](std::uint64_t seed, const char* name, bool other_first) {
    VariableStore store = host_store(1, seed);
    if (other_first) store.tower(0).get("other", {5}, {Initializer::normal(1)});
    return list(store.tower(0).get(name, {100}, {Initializer::truncated_normal(0.5F)}).value);
  };
  EXPECT_EQ(draw(1, "a", false), draw(1, "a", true));
  EXPECT_NE(draw(1, "a", false), draw(2, "a", false));
  EXPECT_NE(draw(1, "a", false), draw(1, "b", false));
  EXPECT_THAT(draw(1, "a", false), testing::Each(testing::AllOf(testing::Ge(-1), testing::Le(1))));
}

TEST(Variables, DigestOfEveryValue) {
  VariableStore store = host_store(1);
  Variable& variable = store.tower(0).get("v", {3}, {});
  store.pack();
  const std::uint64_t before = store.digest();
  EXPECT_EQ(before, store.digest());
  variable.value.data()[2] = 1e-30F;
  EXPECT_NE(before, store.digest());
}

TEST(Variables, NoTowers) {
  expect_error(ErrorCode::invalid_argument, "no towers", [] { VariableStore store({}, 1); });
}

}  // namespace
}  // namespace penstock::towers
