// The emulator finds what it is there for: kernels of ours with a barrier taken out, an index that
// is wrong and sums that race. Each ends the program in a way of its own.
#include "tests/kernels/batches.h"  // first

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "staging/kernels/finish.h"
#include "staging/kernels/reconstruct.h"
#include "staging/reconstruct/twin.h"
#include "tests/kernels/scans.h"
#include "towers/gpu/bodies.h"
#include "towers/gpu/value_plans.h"

namespace penstock {
namespace {

using test::Memory;

#if defined(__SANITIZE_THREAD__)
constexpr bool kTsan = true;
#else
constexpr bool kTsan = false;
#endif

constexpr auto kEmulate = []<typename Body>(const Body& body, kernels::Grid grid) {
  emulation::launch(body, {grid.x, grid.y, grid.z});
};

/// Lets a program end at its first race. The names in a report take long, and a missing barrier
/// gives as many reports as the machine's load makes it.
void end_at_first_race() {
  const char* const given = std::getenv("TSAN_OPTIONS");
  const std::string all = std::string(given != nullptr ? given : "") + " halt_on_error=1";
  ::setenv("TSAN_OPTIONS", all.c_str(), 1);
}

/// What ThreadSanitizer makes of a program that has a race.
#define EXPECT_RACE(...)                                                   \
  do {                                                                     \
    if (!kTsan) GTEST_SKIP() << "ThreadSanitizer finds this: preset tsan"; \
    GTEST_FLAG_SET(death_test_style, "threadsafe");                        \
    end_at_first_race();                                                   \
    EXPECT_EXIT(                                                           \
        {                                                                  \
          __VA_ARGS__;                                                     \
          std::exit(0);                                                    \
        },                                                                 \
        testing::ExitedWithCode(66), "data race");                         \
  } while (false)

/// kernels::Block, whose threads do not wait for each other.
struct BlockWithoutBarrier {
  template <typename Do>
  void each(int count, const Do& work) const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
      work(i);
  }
  template <typename Do>
  bool any(int count, const Do& work) const {
    return kernels::Block().any(count, work);
  }
};

struct TransformWithoutBarrier : kernels::ImagesBody {
  static constexpr unsigned kThreads = 64;
  using Shared = reconstruct::ExpandScratch;
  void operator()(Shared& scratch) const {
    const reconstruct::Image made = image();
    if (!made.wanted()) return;
    for (auto part = static_cast<std::int32_t>(blockIdx.x); part < made.layout->part_count;
         part += static_cast<std::int32_t>(gridDim.x))
      reconstruct::transform(BlockWithoutBarrier(), made, part, scratch);
  }
};

void transform_without_barrier() {
  Memory memory(1);
  const reconstruct::Batch batch = test::batch_of(memory, test::packed_case(3));
  emulation::launch(kernels::LayOutBody{batch}, {1, 1, 1});
  const auto images = static_cast<unsigned>(batch.count);
  emulation::launch(TransformWithoutBarrier{{batch, 0}}, {4, images, 1});
}

TEST(PlantedDeathTest, MissingBarrier) {
  EXPECT_RACE(transform_without_barrier());
}

struct EntropyWithoutBarrier : kernels::ImagesBody {
  static constexpr unsigned kThreads = 256;
  using Shared = reconstruct::EntropyScratch;
  void operator()(Shared& scratch) const {
    reconstruct::decode_entropy(BlockWithoutBarrier(), batch, first + blockIdx.y, scratch);
  }
};

void entropy_without_barrier() {
  const test::Bytes file = test::make_jpeg(test::make_pixels(40, 40, 3));
  const auto plan = test::ScannedJpeg::plan(file, 64);
  const std::uint64_t offsets[] = {0, plan->bytes.size()};
  Memory memory(1);
  reconstruct::Batch batch;
  batch.offsets = offsets;
  batch.packed = reinterpret_cast<const std::uint8_t*>(plan->bytes.data());
  batch.plans = &plan->plan;
  batch.work = memory.leave<std::uint8_t>(reconstruct::kImageWork);
  batch.jpegs = 1;
  batch.count = 1;
  batch.height = batch.width = 40;
  emulation::launch(kernels::LayOutBody{batch}, {1, 1, 1});
  emulation::launch(EntropyWithoutBarrier{{batch, 0}}, {1, 1, 1});
}

TEST(PlantedDeathTest, MissingBarrierInEntropy) {
  EXPECT_RACE(entropy_without_barrier());
}

/// A row's sum of which the first barrier is left out: the last row's values may still be read.
struct SumWithoutBarrier {
  static constexpr unsigned kThreads = 128;
  struct Shared {
    double sums[4];
  };
  double* out;
  void operator()(Shared& shared) const {
    for (int row = 0; row < 20; ++row) {
      if (threadIdx.x % 32 == 0) shared.sums[threadIdx.x / 32] = row;
      __syncthreads();
      if (threadIdx.x == 127) out[row] = shared.sums[0] + shared.sums[3];
    }
  }
};
void sum_without_barrier() {
  Memory memory(1);
  emulation::launch(SumWithoutBarrier{memory.leave<double>(20)}, {1, 1, 1});
}

TEST(PlantedDeathTest, MissingBarrierBetweenRows) {
  EXPECT_RACE(sum_without_barrier());
}

/// Adds without an atomic.
struct RacingAdd {
  float* to;
  void operator()(std::int64_t /*i*/) const { *to += 1; }
};
void racing_add() {
  Memory memory(1);
  float* const sum = memory.fill<float>(1, [] { return 0.0F; });
  towers::launch_plan(RacingAdd{sum}, 512, [](const auto& body, unsigned blocks) {
    emulation::launch(body, {blocks, 1, 1});
  });
}

TEST(PlantedDeathTest, Race) {
  EXPECT_RACE(racing_add());
}

/// Two blocks' threads of one number write to one place.
struct BlocksRace {
  static constexpr unsigned kThreads = 64;
  std::int32_t* to;
  void operator()() const { to[threadIdx.x] = static_cast<std::int32_t>(blockIdx.x); }
};
void blocks_race() {
  Memory memory(1);
  emulation::launch(BlocksRace{memory.leave<std::int32_t>(64)}, {4, 1, 1});
}

TEST(PlantedDeathTest, RaceOfBlocks) {
  EXPECT_RACE(blocks_race());
}

/// A plan whose output is one row larger than its memory.
void finish_too_much() {
  Memory memory(1);
  FinishPlan plan;
  plan.count = 1;
  plan.height = plan.width = 4;
  plan.out_height = plan.out_width = 4;
  plan.channels = 1;
  plan.images = memory.fill<std::uint8_t>(16, [] { return std::uint8_t{1}; });
  plan.out = memory.leave<float>(12);
  kernels::finish(plan, kEmulate);
}

TEST(PlantedDeathTest, WrongIndex) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(finish_too_much(), "AddressSanitizer|a canary is dead");
}

struct SharedTooSmall {
  static constexpr unsigned kThreads = 32;
  struct Shared {
    std::int32_t values[31];
  };
  void operator()(Shared& shared) const {
    std::int32_t* const values = shared.values;
    values[threadIdx.x] = 1;
  }
};

TEST(PlantedDeathTest, WrongIndexIntoSharedMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(emulation::launch(SharedTooSmall{}, {1, 1, 1}), "AddressSanitizer|a canary is dead");
}

struct ReadsWhatWasNotWritten {
  static constexpr unsigned kThreads = 32;
  struct Shared {
    std::int32_t value;
  };
  std::int32_t* to;
  void operator()(Shared& shared) const { to[threadIdx.x] = shared.value; }
};

TEST(Planted, InitialSharedMemory) {
  Memory memory(1);
  std::int32_t* const read = memory.leave<std::int32_t>(32);
  emulation::launch(ReadsWhatWasNotWritten{read}, {1, 1, 1});
  EXPECT_NE(read[5], 0);
}

}  // namespace
}  // namespace penstock
