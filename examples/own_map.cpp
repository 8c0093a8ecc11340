// Work of your own: both forms of a map's callable, and a WorkOp that is given whole groups.
//
//     own_map
//
// Prints:
//     {position: f32 [?,2], label: i64 [?]}
//     label 0 position 0.035 -0.975
//     label 1 position 1.957 0.182
//     label 0 position 1.039 -2.965
//     label 1 position -4.003 0.600
//     seed 7 again: the same, seed 8: different
//     not a number: an error that names element 1
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;

namespace {

const ps::Spec kPoint({{"position", ps::DType::f32, {2}}});
const ps::Spec kLabelled({{"position", ps::DType::f32, {2}}, {"label", ps::DType::i64, {}}});

ps::Dataset points(std::vector<float> values) {
  const auto rows = static_cast<std::int64_t>(values.size() / 2);
  return ps::tensors(
      {{"position", ps::Tensor::of<float>({rows, 2}, std::span<const float>(values))}});
}

// Form one takes an element and returns one. What it throws becomes the element's error, in its
// place in the order. Its result is copied once, into its batch.
ps::Element add_label(ps::Element point) {
  const std::span<const float> at = point["position"].values<float>();
  if (std::isnan(at[0])) throw std::runtime_error("not a number");
  const std::int64_t label = std::abs(at[0]) > std::abs(at[1]) ? 1 : 0;
  point.set("label", ps::Tensor::scalar(label));
  return point;
}

// Form two fills the components of `out`. Directly in front of a batch they are the element's row
// in it, so that nothing is copied. `rng` is the element's own: its numbers depend on the seed, the
// epoch and the element alone, never on threads.
void jitter(const ps::Element& in, ps::Element& out, ps::Rng& rng) {
  const std::span<const float> from = in["position"].values<float>();
  const std::span<float> to = out["position"].mutable_values<float>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = from[i] + static_cast<float>(0.05 * rng.normal());
  out["label"].mutable_values<std::int64_t>()[0] = in["label"].item<std::int64_t>();
}

// A WorkOp is what every map is made of. It is given a group of elements at a time, so that it can
// share work between them: here the angles are drawn first, and then all points turned in one loop.
class RandomRotate final : public ps::WorkOp {
 public:
  explicit RandomRotate(double most_degrees) : most_degrees_(most_degrees) {}

  std::string name() const override { return "random_rotate"; }
  void describe(ps::Description& description) const override {
    description.add("most_degrees", most_degrees_);
  }
  ps::Spec infer(const ps::Spec& input) const override {
    if (input == kPoint) return input;
    throw ps::Error(ps::ErrorCode::invalid_argument, "random_rotate needs " + kPoint.to_string());
  }
  bool random() const override { return true; }
  std::size_t preferred_group() const override { return 64; }

  void run(std::span<ps::WorkItem> items, ps::WorkContext& context) const override {
    thread_local std::vector<double> angles;
    angles.clear();
    for (const ps::WorkItem& item : items) {
      const double radians = most_degrees_ * 3.14159265358979323846 / 180;
      angles.push_back(context.rng(item).uniform(-radians, radians));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      ps::WorkItem& item = items[i];
      if (!item.status.ok() || !item.keep) continue;  // it failed or was dropped before
      const std::span<const float> at = item.element[0].values<float>();
      const auto c = static_cast<float>(std::cos(angles[i]));
      const auto s = static_cast<float>(std::sin(angles[i]));
      item.element[0] = ps::Tensor::of<float>({2}, {c * at[0] - s * at[1], s * at[0] + c * at[1]});
    }
  }

 private:
  double most_degrees_;
};

std::string run(const ps::Dataset& dataset, std::uint64_t seed) {
  std::string text;
  ps::Iterator iterator = dataset.iterate({.seed = seed});
  for (const ps::Element& batch : iterator) {  // throws if there is an error
    const std::span<const float> positions = batch["position"].values<float>();
    const std::span<const std::int64_t> labels = batch["label"].values<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      char line[80];
      std::snprintf(line, sizeof(line), "label %d position %.3f %.3f\n",
                    static_cast<int>(labels[i]), positions[2 * i], positions[2 * i + 1]);
      text += line;
    }
  }
  return text;
}

}  // namespace

int main() {
  const auto pipeline = [](const ps::Dataset& data) {
    return data.map_op(std::make_shared<RandomRotate>(10))
        .map(add_label, {.name = "add_label", .output = kLabelled})
        .map(jitter, {.name = "jitter", .output = kLabelled})
        .batch(2);
  };
  const ps::Dataset batches = pipeline(points({0, -1, 2, 0, 1, -3, -4, 0}));
  std::printf("%s\n", batches.spec().to_string().c_str());
  const std::string seven = run(batches, 7);
  std::printf("%s", seven.c_str());
  std::printf("seed 7 again: %s, seed 8: %s\n", run(batches, 7) == seven ? "the same" : "different",
              run(batches, 8) == seven ? "the same" : "different");

  ps::Iterator iterator = pipeline(points({0, -1, 2, NAN, 1, -3})).iterate();
  while (ps::Next next = iterator.next()) {
    if (!next.is_error()) continue;
    std::printf("%s: an error that names element %d\n", next.error().cause().c_str(),
                static_cast<int>(next.error().where().index));
  }
}
