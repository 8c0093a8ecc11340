// Every work op, in the form that the suite of work ops needs.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/batch_ops.h>
#include <penstock/image.h>
#include <penstock/map.h>
#include <penstock/sources.h>

#include "pipeline/sources/synthetic.h"
#include "pipeline/stages/values.h"
#include "tests/support/example.h"
#include "tests/support/files.h"
#include "tests/support/images.h"
#include "tests/support/numbers.h"

namespace penstock::test {

/// A work op for the suite.
struct WorkOpCase {
  std::string name;
  std::function<WorkOpPtr()> make;
  Spec input;
  /// Returns elements of the input's spec that the op accepts.
  std::function<Element(std::size_t i)> element;
  /// Returns an element that the op fails; null: there is none.
  std::function<Element()> bad{};

  friend std::ostream& operator<<(std::ostream& out, const WorkOpCase& tested) {
    return out << tested.name;
  }
};

/// The spec {x: i64, v: f32 [3]}.
inline Spec pair_spec() {
  return Spec({{"x", DType::i64, {}}, {"v", DType::f32, {3}}});
}

inline Element pair_element(std::int64_t x) {
  const auto v = static_cast<float>(x);
  return {{"x", Tensor::scalar(x)}, {"v", Tensor::of<float>({3}, {v, v + 1, v + 2})}};
}

inline void refuse_negative(const Element& element) {
  if (element["x"].item<std::int64_t>() < 0) throw std::runtime_error("below 0");
}

inline Element jpeg_element(std::size_t i) {
  const int height = 24 + static_cast<int>(i % 5) * 3;
  const std::vector<std::byte> jpeg =
      make_jpeg(make_pixels(height, 31, i % 4 == 3 ? 1 : 3, i + 1), {.progressive = i % 6 == 5});
  return {{"image", Tensor::copy_bytes(as_text(jpeg))},
          {"label", Tensor::scalar(static_cast<std::int64_t>(i))}};
}

inline Element pixels_element(std::size_t i) {
  const Pixels pixels = make_pixels(20, 26, 3, i + 1);
  return {{"image", Tensor::of<std::uint8_t>({20, 26, 3}, pixels.values)}};
}

/// Returns a batch of four images and their labels.
inline Element image_batch(std::size_t i, std::int64_t label) {
  std::vector<float> values;
  for (const char c : noise(4 * 5 * 6 * 3, i + 1)) values.push_back(static_cast<float>(c));
  Element batch{{"image", Tensor::of<float>({4, 5, 6, 3}, values)},
                {"label", Tensor::of<std::int64_t>({4}, {0, 1, 2, label})}};
  batch.valid_rows = 4;
  return batch;
}

/// Returns a case of {x: i64, v: f32 [3]} elements, one of which the op refuses.
inline WorkOpCase on_pairs(std::string name, std::function<WorkOpPtr()> make) {
  return {.name = std::move(name),
          .make = std::move(make),
          .input = pair_spec(),
          .element = [](std::size_t i) { return pair_element(static_cast<std::int64_t>(i)); },
          .bad = [] { return pair_element(-1); }};
}

inline WorkOpCase on_jpegs(std::string name, std::function<ImageOps()> chain) {
  return {.name = std::move(name),
          .make = [chain = std::move(chain)] { return chain().op(); },
          .input = Spec({{"image", DType::bytes, {}}, {"label", DType::i64, {}}}),
          .element = jpeg_element,
          .bad =
              [] {
                Element cut = jpeg_element(0);
                cut["image"] = Tensor::copy_bytes(cut["image"].bytes_at().substr(0, 300));
                return cut;
              }};
}

inline WorkOpCase on_batches(std::string name, std::function<WorkOpPtr()> make) {
  return {.name = std::move(name),
          .make = std::move(make),
          .input = Spec({{"image", DType::f32, {4, 5, 6, 3}}, {"label", DType::i64, {4}}}),
          .element = [](std::size_t i) { return image_batch(i, 3); },
          .bad = [] { return image_batch(0, 9); }};
}

/// Returns all ops. The suite runs over each op that is added here.
inline std::vector<WorkOpCase> work_ops() {
  const auto change = [](Element element) {
    refuse_negative(element);
    element["x"] = Tensor::scalar(3 * element["x"].item<std::int64_t>());
    return element;
  };
  const auto draw = [](Element element, Rng& rng) {
    refuse_negative(element);
    element["x"] = Tensor::scalar(static_cast<std::int64_t>(rng.next_u64() >> 1));
    return element;
  };
  const auto write = [](const Element& in, Element& out, Rng& rng) {
    refuse_negative(in);
    out["sum"].mutable_values<float>()[0] = in["v"].values<float>()[2];
    out["drawn"].mutable_values<std::int64_t>()[0] =
        in["x"].item<std::int64_t>() + static_cast<std::int64_t>(rng.below(1000));
  };
  const auto add = [](const Element& in, Element& out) {
    const auto x = in["x"].values<std::int64_t>();
    if (std::any_of(x.begin(), x.end(), [](std::int64_t value) { return value < 0; }))
      throw std::runtime_error("below 0");
    std::transform(x.begin(), x.end(), out["x"].mutable_values<std::int64_t>().begin(),
                   [](std::int64_t value) { return value + 1; });
    in["v"].copy_to(out["v"].mutable_data());
  };
  const auto even = [](const Element& element) {
    refuse_negative(element);
    return element["x"].item<std::int64_t>() % 2 == 0;
  };
  const auto third = [](const Element& element) {
    refuse_negative(element);
    return element["x"].item<std::int64_t>() % 3;
  };
  const Spec written({{"sum", DType::f32, {}}, {"drawn", DType::i64, {}}});
  return {
      on_pairs("map", [=] { return make_map_op(change, {}); }),
      on_pairs("declared map", [=] { return make_map_op(change, {.output = pair_spec()}); }),
      on_pairs("random map", [=] { return make_map_op(draw, {}); }),
      on_pairs("map into views", [=] { return make_map_op(write, {.output = written}); }),
      on_pairs("map of many", [=] { return make_batch_fn_op(add, {}); }),
      on_pairs("predicate", [=] { return make_predicate_op(even, "even"); }),
      on_pairs("key", [=] { return make_key_op(third, "third"); }),
      {.name = "parse example",
       .make =
           [] {
             return parse_example({{.key = "n", .dtype = DType::i64},
                                   {.key = "v", .dtype = DType::f32, .shape = Shape({2})},
                                   {.key = "words", .shape = Shape({-1})}});
           },
       .input = Spec({{"record", DType::bytes, {}}}),
       .element =
           [](std::size_t i) {
             const auto number = static_cast<float>(i);
             const std::string entries =
                 feature("n", int_feature({static_cast<std::int64_t>(i)})) +
                 feature("v", float_feature({number, -number})) +
                 feature("words", bytes_feature(std::vector<std::string>(i % 4, "word")));
             return Element({{"record", Tensor::copy_bytes(example_of(entries))}});
           },
       .bad =
           [] {
             return Element({{"record", Tensor::copy_bytes("no example")}});
           }},
      {.name = "parse sequence example",
       .make =
           [] {
             return parse_sequence_example(
                 {{.key = "n", .dtype = DType::i64}},
                 {{.key = "words"}, {.key = "v", .dtype = DType::f32, .step = Shape({2})}});
           },
       .input = Spec({{"record", DType::bytes, {}}}),
       .element =
           [](std::size_t i) {
             const auto number = static_cast<float>(i);
             std::string words, pairs;
             for (std::size_t step = 0; step < i % 5; ++step) {
               words += field(1, bytes_feature(std::vector<std::string>(step % 3, "word")));
               pairs += field(1, float_feature({number, -number}));
             }
             const std::string record =
                 example_of(feature("n", int_feature({static_cast<std::int64_t>(i)}))) +
                 field(2, feature("words", words) + feature("v", pairs));
             return Element({{"record", Tensor::copy_bytes(record)}});
           },
       .bad =
           [] {
             return Element({{"record", Tensor::copy_bytes("no example")}});
           }},
      {.name = "synthetic cost",
       .make =
           [] {
             SyntheticOptions options;
             options.cost_us.a = 1;
             return make_synthetic_cost_op(options);
           },
       .input = pair_spec(),
       .element = [](std::size_t i) { return pair_element(static_cast<std::int64_t>(i)); }},
      on_jpegs("decode", [] { return decode_image(); }),
      on_jpegs("decode, crop, flip, normalize",
               [] { return decode_image().random_resized_crop(16).random_flip().normalize(); }),
      on_jpegs("decode to gray",
               [] { return decode_image("image", {.channels = 1}).resize(9, 11); }),
      on_jpegs("decode on a device",
               [] { return decode_image().random_resized_crop(16).normalize().on_device(); }),
      {.name = "pixels, jitter, pad, cast",
       .make =
           [] {
             return image_ops()
                 .color_jitter({.brightness = 0.5, .contrast = 0.2, .hue = 0.1})
                 .random_pad_crop(18, 18, 3)
                 .cast(DType::f32, Layout::chw)
                 .op();
           },
       .input = Spec({{"image", DType::u8, {20, 26, 3}}}),
       .element = pixels_element},
      on_batches("mixup", [] { return mixup({.classes = 4}); }),
      on_batches("cutmix", [] { return cutmix({.classes = 4}); }),
  };
}

}  // namespace penstock::test
