// The trainer's kernels, each thread by itself, against their twins. Where the lanes of a row, or
// atomics, add in another order than the twin, to rounding; else to the bit.
#include "tests/kernels/cases.h"  // first

#include <gtest/gtest.h>

#include <set>
#include <typeindex>

#include "towers/gpu/bodies.h"
#include "towers/gpu/image_plans.h"
#include "towers/gpu/kernels.h"
#include "towers/gpu/loss_plans.h"
#include "towers/gpu/value_plans.h"

namespace penstock::towers {
namespace {

using test::Memory;

/// The plans that have been compared.
std::set<std::type_index>& compared() {
  static std::set<std::type_index> all;
  return all;
}

template <typename T>
double value_at(const unsigned char* data, std::size_t i) {
  T value{};
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  if constexpr (std::is_same_v<T, Bf16>) {
    return static_cast<double>(load(value));
  } else {
    return static_cast<double>(value);
  }
}

/// A case's plan, and over how many values or rows it goes.
template <typename Plan>
struct Case {
  Plan plan;
  std::int64_t count;
};

template <typename T>
bool close(const emulation::Fenced& a, const emulation::Fenced& b, double far) {
  for (std::size_t i = 0; (i + 1) * sizeof(T) <= a.size(); ++i) {
    const double x = value_at<T>(a.data(), i);
    const double y = value_at<T>(b.data(), i);
    if (!(std::abs(x - y) <= far * std::max(1.0, std::abs(x)))) return false;
  }
  return true;
}

/// `make(memory, number)` gives a Case. If `rounded` is a type, parts of such values, or of
/// doubles, agree to `far` of the larger of 1 and the value.
template <typename Rounded = void, typename Make>
void compare(Make make, double far = 0) {
  emulation::Queue queue;
  std::deque<Memory> theirs;
  std::deque<Memory> ours;
  using Plan = std::remove_cvref_t<decltype(make(theirs.front(), 0).plan)>;
  compared().insert(typeid(Plan));
  for (int number = 0; number < test::kCases; ++number) {
    const auto seed = static_cast<std::uint64_t>(number);
    const auto twin = make(theirs.emplace_back(seed), number);
    const auto device = make(ours.emplace_back(seed), number);
    run_here(twin.plan, twin.count);
    launch_plan(device.plan, device.count, [&](const auto& body, unsigned blocks) {
      queue.add(body, {blocks, 1, 1});
    });
  }
  queue.run();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if constexpr (std::is_void_v<Rounded>) {
      ASSERT_EQ(test::difference(theirs[i], ours[i]), -1) << typeid(Plan).name() << ", case " << i;
    } else {
      for (std::size_t p = 0; p < ours[i].parts.size(); ++p) {
        const emulation::Fenced& a = theirs[i].parts[p];
        const emulation::Fenced& b = ours[i].parts[p];
        if (std::memcmp(a.data(), b.data(), a.size()) == 0) continue;
        ASSERT_TRUE(close<Rounded>(a, b, far) || close<double>(a, b, far))
            << typeid(Plan).name() << ", case " << i << ", part " << p;
      }
    }
  }
}

template <typename T>
T value(Memory& memory, float low = -2, float high = 2) {
  T made{};
  store(made, memory.real(low, high));
  return made;
}
template <typename T>
T* values(Memory& memory, std::int64_t count, float low = -2, float high = 2) {
  return memory.fill<T>(count, [&] { return value<T>(memory, low, high); });
}
float* floats(Memory& memory, std::int64_t count, float low = -2, float high = 2) {
  return values<float>(memory, count, low, high);
}

/// How many values: few, a block's, or more than one of them.
std::int64_t some(Memory& memory, int number) {
  if (number == 0) return 1;
  if (number == 1) return 256;
  return memory.between(1, number % 3 == 0 ? 1000 : 40);
}

template <int kTogether>
void compare_totals() {
  compare<double>(
      [](Memory& m, int /*n*/) {
        const std::int64_t rows = m.between(1, 300), channels = kTogether * m.between(1, 3);
        const double* sums =
            m.fill<double>(2 * rows * channels, [&] { return static_cast<double>(m.real()); });
        return Case<TotalsPlan<kTogether>>{{sums, m.leave<double>(2 * channels), rows, channels},
                                           2 * channels / kTogether};
      },
      1e-12);
}

void compare_values() {
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<FillPlan>{{m.leave<float>(count), m.real()}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<ScalePlan>{{floats(m, count), m.real()}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<AddPlan>{{floats(m, count), floats(m, count), m.real(), n % 2 == 0 ? 0 : m.real()},
                         count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<ToBf16Plan>{{floats(m, count), m.leave<Bf16>(count)}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<SgdPlan>{{floats(m, count), floats(m, count), m.real(0, 1)}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<MomentumPlan>{{floats(m, count), floats(m, count), floats(m, count), m.real(0, 1),
                               m.real(0, 1), n % 2 == 0},
                              count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<AdamPlan>{
        {floats(m, count), floats(m, count), floats(m, count), floats(m, count, 0, 2), 0.9F, 0.999F,
         m.real(0, 1), m.real(0.5F, 1), 1e-7F},
        count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    double* const square = m.fill<double>(1, [&] { return static_cast<double>(m.real(0, 9)); });
    return Case<ClipPlan>{{floats(m, count), square, 1.0}, count};
  });
  compare<double>(
      [](Memory& m, int n) {
        const std::int64_t count = some(m, n);
        const std::int64_t part = m.between(200, 300);
        const std::int64_t rows = (count + part - 1) / part;
        return Case<SquareSumPlan>{{floats(m, count), m.leave<double>(rows), count, part}, rows};
      },
      1e-12);
  compare<double>(
      [](Memory& m, int /*n*/) {
        const std::int64_t rows = m.between(1, 300);
        const std::int64_t columns = m.between(1, 2);
        const auto any = [&] { return static_cast<double>(m.real()); };
        const double* from = m.fill<double>(rows * columns, any);
        return Case<ColumnsPlan>{
            {from, m.fill<double>(columns, any), rows, columns, static_cast<double>(m.real())},
            columns};
      },
      1e-12);
  compare_totals<1>();
  compare_totals<4>();
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    const double* totals = m.fill<double>(count, [&] { return static_cast<double>(m.real()); });
    return Case<GradientPlan>{{totals, floats(m, count), static_cast<float>(n % 2)}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t c = m.between(1, 300);
    const double* totals = m.fill<double>(2 * c, [&] { return static_cast<double>(m.real(0, 9)); });
    return Case<NormStatisticsPlan>{
        {n % 3 == 0 ? nullptr : totals, floats(m, c), floats(m, c), floats(m, c),
         floats(m, c, 0, 2), m.leave<float>(c), m.leave<float>(c), m.leave<float>(c),
         m.leave<float>(c), c, static_cast<double>(m.between(1, 9)), 1e-3, 0.9F},
        c};
  });
}

void compare_norm_gradients() {
  compare([](Memory& m, int n) {
    const std::int64_t c = m.between(1, 300);
    const double* totals = m.fill<double>(2 * c, [&] { return static_cast<double>(m.real(0, 9)); });
    return Case<NormGradientsPlan>{
        {totals, n % 3 == 0 ? nullptr : floats(m, c), floats(m, c),
         n % 3 == 1 ? nullptr : m.leave<float>(2 * c), c, static_cast<float>(n % 2),
         static_cast<float>(n / 2 % 2), static_cast<double>(m.between(1, 9))},
        c};
  });
}

template <typename T>
void compare_of() {
  constexpr double kFar = std::is_same_v<T, float> ? 1e-6 : 1e-2;
  compare([](Memory& m, int /*n*/) {
    const std::int64_t in = m.between(1, 9), area = m.between(1, 9), out = m.between(1, 9);
    const std::int64_t count = in * area * out;
    return Case<PackWeightsPlan<T>>{{floats(m, count), m.leave<T>(count), in, area}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t in = m.between(1, 9), area = m.between(1, 9), out = m.between(1, 9);
    const std::int64_t count = in * area * out;
    return Case<UnpackWeightsPlan<T>>{
        {values<T>(m, count), floats(m, count), in, area, static_cast<float>(n % 2)}, count};
  });
  compare([](Memory& m, int n) {
    const std::int64_t count = some(m, n);
    return Case<SumOfTwoPlan<T>>{
        {values<T>(m, count), values<T>(m, count), m.leave<T>(count), count},
        (count + kWide<T> - 1) / kWide<T>};
  });
  compare([](Memory& m, int /*n*/) {
    const std::int64_t rows = m.between(1, 9), width = m.between(1, 70);
    return Case<DropoutPlan<T>>{{values<T>(m, rows * width), m.leave<T>(rows * width), width,
                                 m.between(0, 99), m.between(1, 3), m.rng.next_u64(), 1U << 31, 2},
                                rows * width};
  });
  compare([](Memory& m, int n) {
    const std::int64_t rows = m.between(1, 3), h = m.between(1, 5), w = m.between(1, 5),
                       c = m.between(1, 4), low = m.between(0, 2), more = low + m.between(0, 2);
    const std::int64_t small = rows * h * w * c, large = rows * (h + more) * (w + more) * c;
    const bool into = n % 2 == 0;
    return Case<PadPlan<T>>{{values<T>(m, into ? small : large), m.leave<T>(into ? large : small),
                             h, w, c, low, h + more, w + more, into, -3},
                            into ? large : small};
  });
  // Windows within an image, over its edges, and beyond them; few values, so that many are equal.
  const auto windows = [](Memory& m, int n) {
    const auto small = [&](int low, int high) {
      return static_cast<std::int32_t>(m.between(low, high));
    };
    Windows w{small(1, 7), small(1, 7), n % 2 == 0 ? 8 * small(1, 2) : small(1, 9),
              0,           0,           small(1, 4),
              small(1, 3), small(0, 2)};
    w.out_height = (w.height + w.low + 2) / w.stride + 1;
    w.out_width = (w.width + w.low) / w.stride + 1;
    return w;
  };
  const auto digits = [](Memory& m, std::int64_t count) {
    return m.fill<T>(count, [&] {
      T made{};
      const auto digit = static_cast<float>(m.between(-2, 3));
      store(made, digit == 3 ? NAN : digit);
      return made;
    });
  };
  compare([&](Memory& m, int n) {
    const Windows w = windows(m, n);
    const std::int64_t images = m.between(1, 3);
    const std::int64_t in = images * w.height * w.width * w.channels;
    const std::int64_t out = images * w.out_height * w.out_width * w.channels;
    return Case<MaxPoolPlan<T>>{{digits(m, in), m.leave<T>(out), m.leave<std::uint16_t>(out), w},
                                images * w.out_height};
  });
  compare([&](Memory& m, int n) {
    const Windows w = windows(m, n);
    const std::int64_t images = m.between(1, 3);
    const std::int64_t in = images * w.height * w.width * w.channels;
    const std::int64_t out = images * w.out_height * w.out_width * w.channels;
    const std::uint16_t* const places = m.fill<std::uint16_t>(
        out, [&] { return static_cast<std::uint16_t>(m.between(0, w.kernel * w.kernel)); });
    return Case<MaxPoolBackPlan<T>>{{values<T>(m, out), places, m.leave<T>(in), w},
                                    images * w.height};
  });
  compare([](Memory& m, int /*n*/) {
    const std::int64_t rows = m.between(1, 9), c = m.between(1, 40);
    return Case<LrnPlan<T>>{{values<T>(m, rows * c), m.leave<T>(rows * c), m.leave<float>(rows * c),
                             c, m.between(0, 4), 1, 0.5F, 0.75F},
                            rows * c};
  });
  compare([](Memory& m, int /*n*/) {
    const std::int64_t rows = m.between(1, 9), c = m.between(1, 40);
    return Case<LrnBackPlan<T>>{
        {values<T>(m, rows * c), values<T>(m, rows * c), floats(m, rows * c, 1, 3),
         m.leave<T>(rows * c), c, m.between(0, 4), 0.5F, 0.75F},
        rows * c};
  });
  // Some channels are whole vectors; some bands are narrower or wider than the lanes of a block.
  const auto channels = [](Memory& m, int n) {
    return n % 3 == 0 ? m.between(1, 9) : n % 3 == 1 ? 8 * m.between(1, 20) : m.between(120, 600);
  };
  const auto divided = [](Memory& m, std::int64_t rows, std::int64_t c) {
    return Bands::of(rows * c, c, sizeof(T), m.between(1, 6));
  };
  const auto gates = [](Memory& m, std::int64_t values, std::int64_t c) {
    return m.fill<std::uint8_t>(values / vector_of(sizeof(T), c),
                                [&] { return static_cast<std::uint8_t>(m.between(0, 255)); });
  };
  const auto compare_sums = [&]<Sums kWhat>() {
    compare([&](Memory& m, int n) {
      const std::int64_t rows = m.between(1, 60), c = channels(m, n);
      const Bands bands = divided(m, rows, c);
      return Case<SumsPlan<T, kWhat>>{
          {values<T>(m, rows * c), values<T>(m, rows * c),
           n % 2 == 0 ? gates(m, rows * c, c) : nullptr, floats(m, c), floats(m, c),
           m.leave<double>(2 * bands.parts() * bands.width), bands, bands.parts()},
          bands.parts()};
    });
  };
  compare_sums.template operator()<Sums::moments>();
  compare_sums.template operator()<Sums::squares>();
  compare_sums.template operator()<Sums::gradients>();
  compare([&](Memory& m, int n) {
    const std::int64_t rows = m.between(1, 60), c = channels(m, n);
    const Bands bands = divided(m, rows, c);
    return Case<NormPlan<T>>{
        {values<T>(m, rows * c), n % 2 == 0 ? values<T>(m, rows * c) : nullptr,
         m.leave<T>(rows * c),
         n % 5 < 3 ? m.leave<std::uint8_t>(rows * c / vector_of(sizeof(T), c)) : nullptr,
         floats(m, c), floats(m, c), bands, n % 5 != 4},
        bands.parts()};
  });
  compare([&](Memory& m, int n) {
    const std::int64_t rows = m.between(1, 60), c = channels(m, n);
    const Bands bands = divided(m, rows, c);
    return Case<GatedSumPlan<T>>{{values<T>(m, rows * c), values<T>(m, rows * c),
                                  gates(m, rows * c, c), m.leave<T>(rows * c), bands},
                                 bands.parts()};
  });
  compare([&](Memory& m, int n) {
    const std::int64_t rows = m.between(1, 60), c = channels(m, n);
    const Bands bands = divided(m, rows, c);
    return Case<NormBackPlan<T>>{
        {values<T>(m, rows * c), values<T>(m, rows * c),
         n % 2 == 0 ? gates(m, rows * c, c) : nullptr, m.leave<T>(rows * c), floats(m, c),
         floats(m, c), floats(m, c), floats(m, 2 * c), bands},
        bands.parts()};
  });
  compare<T>(
      [](Memory& m, int n) {
        const std::int64_t rows = 1 + n % 2, c = m.between(1, n % 3 == 0 ? 300 : 12);
        const std::int64_t* labels =
            m.fill<std::int64_t>(rows, [&] { return m.between(n % 5 == 0 ? -1 : 0, c - 1); });
        return Case<SoftmaxPlan<T>>{
            {values<T>(m, rows * c), labels, n % 4 == 1 ? floats(m, rows) : nullptr,
             m.leave<T>(rows * c), m.leave<RowResult>(rows), c, m.between(1, rows)},
            rows};
      },
      kFar);
  compare([](Memory& m, int n) {
    const std::int64_t rows = m.between(1, 9), width = m.between(1, 20), all = rows * width;
    return Case<TripletPlan<T>>{
        {values<T>(m, all), values<T>(m, all), values<T>(m, all),
         n % 2 == 1 ? floats(m, rows) : nullptr, m.leave<T>(all), m.leave<T>(all), m.leave<T>(all),
         m.leave<RowResult>(rows), width, m.between(1, rows), 0.5},
        rows};
  });
  compare<T>(
      [](Memory& m, int n) {
        const std::int64_t rows = n % 4 == 0 ? 140 : m.between(1, 9), width = m.between(1, 6);
        return Case<InBatchPlan<T>>{
            {values<T>(m, rows * width), values<T>(m, rows * width), m.leave<double>(rows * rows),
             m.leave<double>(rows * rows), m.leave<RowResult>(rows), width, rows, 3.0},
            1};
      },
      1e-9);
  compare([](Memory& m, int n) {
    const std::int64_t rows = m.between(1, 9), width = m.between(1, 9), valid = m.between(1, rows);
    const auto any = [&] { return static_cast<double>(m.real()); };
    return Case<InBatchBackPlan<T>>{
        {values<T>(m, rows * width), values<T>(m, rows * width), m.fill<double>(valid * valid, any),
         m.fill<double>(valid * valid, any), m.leave<T>(rows * width), width, valid, n % 2 == 0},
        rows};
  });
  const auto ids = [](Memory& m, std::int64_t count, std::int64_t rows) {
    return m.fill<std::int64_t>(count, [&] { return m.between(-1, rows); });
  };
  compare([&](Memory& m, int /*n*/) {
    const std::int64_t rows = m.between(1, 9), width = m.between(1, 9), most = m.between(1, 4),
                       samples = m.between(1, 20);
    return Case<EmbeddingPlan<T>>{
        {floats(m, rows * width), ids(m, samples * most, rows), m.leave<T>(samples * width),
         m.leave<RowResult>(samples), rows, width, most},
        samples * width};
  });
  compare<float>(
      [&](Memory& m, int n) {
        const std::int64_t rows = m.between(1, 9), width = m.between(1, 9), most = m.between(1, 4),
                           samples = m.between(1, 20), step = n % 2 == 0 ? 1 : samples;
        return Case<EmbeddingBackPlan<T>>{
            {values<T>(m, samples * width), ids(m, samples * most, rows), floats(m, rows * width),
             rows, width, most, samples, step},
            width * step};
      },
      1e-5);
}

template <typename... Plans>
std::vector<std::type_index> all_of(const LaunchesOf<Plans...>*) {
  return {typeid(Plans)...};
}

TEST(TowersKernels, AreTheirTwinsOn60CasesAndNoneIsLeftOut) {
  compare_of<float>();
  compare_of<Bf16>();
  compare_values();
  compare_norm_gradients();
  for (const std::type_index plan : all_of(static_cast<const Launches*>(nullptr)))
    EXPECT_TRUE(compared().contains(plan)) << plan.name();
}

}  // namespace
}  // namespace penstock::towers
