// Maps of single elements that the engine makes many at a time: nobody can tell.
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "tests/support/numbers.h"

namespace penstock {
namespace {

using test::run;

Element same(Element element) {
  return element;
}

Element square(Element element) {
  const auto value = element["value"].item<std::int64_t>();
  element["value"] = Tensor::scalar(value * value);
  return element;
}

/// What elements of range(n) become, and which of them do not fit.
struct Odd {
  std::string name;
  Element (*fn)(Element);
  std::optional<Spec> output{};
};

constexpr std::int64_t kEvery = 97;

bool is_odd(const Element& element) {
  return element["value"].item<std::int64_t>() % kEvery == 5;
}

class OddElements : public testing::TestWithParam<Odd> {};

TEST_P(OddElements, AreReportedAsIfMadeOneByOne) {
  const MapOptions options{.name = "odd", .output = GetParam().output};
  for (const int threads : {1, 2}) {
    for (const std::size_t rows : {7, 600}) {
      const Dataset together = range(1500).map(same).map(GetParam().fn, options).map(same);
      const Dataset one_by_one = test::map_one_by_one(
          test::map_one_by_one(test::map_one_by_one(range(1500), same), GetParam().fn, options),
          same);
      const RunOptions skipping{.threads = threads, .on_error = OnError::skip};
      EXPECT_EQ(run(together.batch(rows), skipping), run(one_by_one.batch(rows), skipping));
      EXPECT_NE(run(together.batch(rows), skipping), "");

      const std::vector<Error> found = test::errors(together.batch(rows), {.threads = threads});
      const std::vector<Error> expected =
          test::errors(one_by_one.batch(rows), {.threads = threads});
      ASSERT_EQ(found.size(), 1500U / kEvery + 1);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_STREQ(found[i].what(), expected[i].what());
        EXPECT_EQ(found[i].code(), expected[i].code());
        EXPECT_EQ(found[i].where().index, expected[i].where().index);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Maps, OddElements,
    testing::Values(
        Odd{"thrown",
            [](Element element) {
              if (is_odd(element)) throw std::runtime_error("it is odd");
              return element;
            }},
        Odd{"named",
            [](Element element) {
              if (!is_odd(element)) return element;
              return Element({{"x", Tensor::scalar<std::int64_t>(1)}});
            }},
        Odd{"longer",
            [](Element element) {
              if (is_odd(element)) element.set("x", Tensor::scalar<std::int64_t>(1));
              return element;
            }},
        Odd{"typed",
            [](Element element) {
              if (is_odd(element)) element["value"] = Tensor::scalar<float>(1);
              return element;
            }},
        Odd{"shaped",
            [](Element element) {
              if (is_odd(element)) element["value"] = Tensor::of<std::int64_t>({1}, {1});
              return element;
            }},
        Odd{"declared",
            [](Element element) {
              const bool odd = is_odd(element);
              return Element({{"x", odd ? Tensor::scalar<double>(1) : Tensor::scalar<float>(1)}});
            },
            Spec({{"x", DType::f32, {}}})}),
    [](const auto& test) { return test.param.name; });

TEST(ElementMaps, MeetEachElementOnceWhateverFails) {
  std::mutex mutex;
  std::map<std::string, std::map<std::int64_t, int>> calls;
  const auto noting = [&](const std::string& name) {
    return [&, name](Element element) {
      const std::lock_guard lock(mutex);
      ++calls[name][element["value"].item<std::int64_t>()];
      return element;
    };
  };
  const auto picky = [](Element element) {
    if (is_odd(element)) throw std::runtime_error("it is odd");
    return element;
  };
  const auto pickier = [](const Element& in, Element& out) {
    for (const std::int64_t value : in["value"].values<std::int64_t>()) {
      if (value == 1234) throw std::runtime_error("not this one");
    }
    out = in;
  };
  const Dataset batches = range(2000)
                              .map(noting("first"))
                              .map(picky)
                              .map(noting("second"))
                              .map_batchwise(pickier)
                              .map(noting("third"))
                              .batch(700);
  for (const int threads : {1, 2}) {
    calls.clear();
    EXPECT_NE(run(batches, {.threads = threads, .on_error = OnError::skip}), "");
    for (std::int64_t value = 0; value < 2000; ++value) {
      const bool fails = value % kEvery == 5;
      EXPECT_EQ(calls["first"][value], 1) << value;
      EXPECT_EQ(calls["second"][value], fails ? 0 : 1) << value;
      EXPECT_EQ(calls["third"][value], fails || value == 1234 ? 0 : 1) << value;
    }
  }
}

/// `count` elements of `width` floats, 0, 1, 2, ….
Dataset rows(std::int64_t count, std::int64_t width) {
  std::vector<float> values(static_cast<std::size_t>(count * width));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return tensors(Element({{"row", Tensor::of<float>({count, width}, values)}}));
}

Element doubled_in_place(Element element) {
  for (float& value : element["row"].mutable_values<float>()) value *= 2;
  return element;
}

TEST(ElementMaps, MayChangeAndKeepWhatTheyGet) {
  std::mutex mutex;
  std::vector<Element> kept;
  const auto keep = [&](Element element) {
    const std::lock_guard lock(mutex);
    kept.push_back(element);
    return element;
  };
  for (const std::int64_t width : {1, 12, 13, 100, 300}) {
    kept.clear();
    const auto copied = [](Element element) {
      element["row"] = element["row"].clone();
      return element;
    };
    EXPECT_EQ(
        run(rows(70, width).map(copied).map(doubled_in_place).map(keep).batch(30)),
        run(test::map_one_by_one(test::map_one_by_one(rows(70, width), copied), doubled_in_place)
                .batch(30)));
    ASSERT_EQ(kept.size(), 70U);
    for (const Element& element : kept) {
      const auto values = element["row"].values<float>();
      ASSERT_EQ(values.size(), static_cast<std::size_t>(width));
      for (std::size_t i = 1; i < values.size(); ++i)
        ASSERT_EQ(values[i], values[0] + 2.0F * static_cast<float>(i));
    }
  }
}

TEST(ElementMaps, TakeManyComponents) {
  for (const int count : {1, 4, 5, 8, 9, 12}) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back("c" + std::to_string(i));
    Element columns(Names::intern(names));
    for (int i = 0; i < count; ++i) {
      columns[i] = Tensor::of<std::int64_t>({100}, std::vector<std::int64_t>(100, i));
    }
    const auto turned = [](Element element) {
      std::swap(element[0], element[element.size() - 1]);
      return element;
    };
    EXPECT_EQ(run(tensors(columns).map(turned).batch(30)),
              run(test::map_one_by_one(tensors(columns), turned).batch(30)))
        << count;
  }
}

TEST(ElementMaps, RunInTheSmallestBudget) {
  const Dataset batches = range(5000).map(square).map(same).batch(10);
  EXPECT_EQ(run(batches, {.memory_bytes = 4 << 10}), run(batches));
}

}  // namespace
}  // namespace penstock
