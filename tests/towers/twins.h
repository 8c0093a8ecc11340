// Small models, and synthetic data to train them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/rng.h>
#include <penstock/sources.h>
#include <penstock/towers/classifier.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/dropout.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/trainer.h>

#include "tests/support/files.h"

namespace penstock::towers::test {

/// Returns `count` images of 32x32x3 in ten classes. The colour and the place of a square in noise
/// tell the class. To a network, this resembles CIFAR-10.
inline Dataset picture_twin(std::int64_t count, std::uint64_t seed = 1) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count) * 32 * 32 * 3);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Rng rng(seed, static_cast<std::uint64_t>(i), 0);
    const std::int64_t label = i % 10;
    labels[static_cast<std::size_t>(i)] = label;
    std::uint8_t* image = pixels.data() + i * 32 * 32 * 3;
    const std::int64_t top = 6 + 10 * (label % 2);
    for (std::int64_t at = 0; at < 32 * 32 * 3; ++at) {
      const std::int64_t row = at / 96;
      const std::int64_t column = at / 3 % 32;
      const bool inside = row >= top && row < top + 10 && column >= 10 && column < 22;
      const bool bright = inside && (label / 2 + at % 3) % 5 < 2;
      image[at] = static_cast<std::uint8_t>((bright ? 150 : 40) + rng.below(80));
    }
  }
  return tensors({{"image", Tensor::of<std::uint8_t>({count, 32, 32, 3}, pixels)},
                  {"label", Tensor::of<std::int64_t>({count}, labels)}});
}

/// Returns {image: f32 [1,1,4], label}. The label says which of 3 linear functions is largest.
inline Dataset points(std::int64_t count) {
  std::vector<float> values;
  std::vector<std::int64_t> labels;
  Rng rng(5, 0, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    float best = -100;
    std::int64_t label = 0;
    std::vector<float> x;
    for (int d = 0; d < 4; ++d) x.push_back(static_cast<float>(rng.normal()));
    for (int c = 0; c < 3; ++c) {
      const float score = x[static_cast<std::size_t>(c)] - 0.5F * x[3];
      if (score > best) {
        best = score;
        label = c;
      }
    }
    values.insert(values.end(), x.begin(), x.end());
    labels.push_back(label);
  }
  return tensors({{"image", Tensor::of<float>({count, 1, 1, 4}, values)},
                  {"label", Tensor::of<std::int64_t>({count}, labels)}});
}

/// Softmax regression for `points`.
class Linear : public Classifier {
 public:
  explicit Linear(const Scope& scope) {
    build(scope, {[](const Scope& s) {
            return dense(s / "fc", {.in = 4,
                                    .out = 3,
                                    .initializer = Initializer::normal(0.3F),
                                    .input_gradient = false});
          }});
  }
};

/// A model with a hidden layer and dropout.
class Hidden : public Classifier {
 public:
  explicit Hidden(const Scope& scope) {
    build(scope, {[](const Scope& s) {
                    return dense(s / "a", {.in = 4, .out = 16, .initializer = Initializer::he(4)});
                  },
                  relu, [](const Scope& s) { return dropout(s / "drop", 0.25F); },
                  [](const Scope& s) {
                    return dense(s / "b", {.in = 16, .out = 3, .initializer = Initializer::he(16)});
                  }});
  }
};

template <typename M>
ModelMaker maker() {
  return [](const Scope& scope) -> ModelPtr { return std::make_unique<M>(scope); };
}

/// Returns options for this many towers on host devices.
inline TrainOptions options_for(int towers, std::int64_t batch) {
  TrainOptions options;
  for (int t = 0; t < towers; ++t) options.devices.push_back(device({DeviceKind::host, t}));
  options.batch = batch;
  options.threads = 1;
  options.strategy.timeout_s = 60;
  options.strategy.update = {make_optimizer("sgd"), Schedule::constant(0.01)};
  return options;
}

/// Returns options for a run of two towers that keeps checkpoints in a folder.
inline TrainOptions options_in(const std::string& folder, std::uint64_t max_steps) {
  TrainOptions options = options_for(2, 8);
  options.deterministic = true;
  options.checkpoint_folder = folder;
  options.checkpoint_every = 5;
  options.epochs = 4;
  options.max_steps = max_steps;
  options.strategy.update = {make_optimizer("adam"), Schedule::constant(0.01)};
  return options;
}

/// Trains `Hidden` on 200 points.
inline TrainResult train(const TrainOptions& options) {
  TrainObserver nobody;
  Trainer trainer(maker<Hidden>(), points(200).shuffle(), std::nullopt, options);
  return trainer.run(nobody);
}

/// The contents of a folder's checkpoints, by name.
inline std::map<std::string, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".safetensors")
      files[file.path().filename()] = penstock::test::read_file(file.path());
  return files;
}

}  // namespace penstock::towers::test
