// A model of one's own: how far a point is from the origin. `own_model [DEVICES]` runs as one
// process or, started by mpirun, srun or torchrun, as several, on any machines (docs/cluster.md).
// Prints:
//     480 updates: at least 95 of 100 points are within 0.1
#include <cmath>
#include <cstdio>

#include <penstock/penstock.h>
#include <penstock/towers.h>
namespace ps = penstock;
namespace tw = penstock::towers;

struct Distance final : tw::Model {
  explicit Distance(const tw::Scope& scope) {
    layers.add(tw::dense(scope / "in", {.in = 2, .out = 32, .initializer = tw::Initializer::he(2)}))
        .add(tw::relu(scope))
        .add(tw::dense(scope / "out", {.in = 32, .out = 1}));
  }
  tw::Loss forward(const tw::Batch& batch, const tw::Pass& pass) override {
    point = batch.f32("point");  // stays until `backward` has returned
    const tw::Array &out = layers.forward(point, pass), distance = batch.f32("distance");
    tw::Loss loss{.rows = pass.valid_rows};
    error.resize(out.shape());
    error.fill(0);  // also of rows that are padding
    for (std::int64_t i = 0; i < loss.rows; ++i) {
      const float difference = out.data()[i] - distance.data()[i];
      error.data()[i] = difference / static_cast<float>(loss.rows);  // the gradient of the mean
      loss.sum += difference * difference / 2;
      loss.correct += std::abs(difference) < 0.1F ? 1 : 0;
    }
    return loss;
  }
  void backward(const tw::Pass& pass) override { layers.backward(error, pass); }
  tw::Sequential layers;
  tw::Array point, error;
};

int main(int argc, char** argv) try {
  const auto others = tw::join();  // null: this process is alone
  tw::TrainOptions options{.batch = 32, .epochs = 40, .threads = 1};
  options.devices = ps::devices(argc > 1 ? argv[1] : "host:0,host:1");  // a tower on each
  options.strategy.update = {tw::make_optimizer("adam"), tw::Schedule::parse("cosine:0.01")};
  options.strategy.peers = others.get();
  const ps::Spec spec({{"point", ps::DType::f32, {2}}, {"distance", ps::DType::f32, {}}});
  const auto place = [](const ps::Element& in) {
    const auto i = static_cast<float>(in["value"].item<std::int64_t>());
    const float x = std::sin(i * 0.37F), y = std::cos(i * 0.61F);
    return ps::Element{{"point", ps::Tensor::of<float>({2}, {x, y})},
                       {"distance", ps::Tensor::scalar(std::hypot(x, y))}};
  };
  const ps::Dataset points = ps::range(800).map(place, {.output = spec});
  const auto make = [](const tw::Scope& scope) { return std::make_unique<Distance>(scope); };
  tw::Trainer trainer(make, points.shuffle(), points, options);
  tw::TrainObserver nobody;
  if (const tw::TrainResult result = trainer.run(nobody); result.evaluation)  // only on rank 0
    std::printf("%d updates: %s 95 of 100 points are within 0.1\n", static_cast<int>(result.steps),
                result.evaluation->accuracy < 0.95 ? "less than" : "at least");
} catch (const ps::Error& error) {
  return std::fprintf(stderr, "own_model: %s\n", error.what()), 1;
}
