// A training step with its input beside the same step on a batch that stays:
//     penstock_towers_bench DEVICE PRECISION MODEL IMAGES BATCH STEPS [on-device]
// IMAGES is a folder of images in a folder for each class; with on-device, the device decodes them.
// Prints one JSON object: images a second
// of both and their ratio, the ledger of the run with input, and its first and last losses.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <penstock/error.h>
#include <penstock/image.h>
#include <penstock/sources.h>
#include <penstock/towers/model_input.h>

#include "towers/train/tower_set.h"
#include "towers/train/tower_steps.h"
#include "towers/train/train_plan.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kWarm = 5;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Images a second of the whole step on one batch, over and over.
double resident(const towers::ModelKind& kind, const Dataset& images,
                const towers::TrainOptions& given, std::uint64_t steps) {
  const towers::TrainOptions options = towers::completed(given);
  towers::TowerSet set(kind.make, options, {});
  const towers::StrategyPtr strategy = towers::make_strategy(set.store(), options.strategy);
  Feed feed(images.batch(options.batch), options.devices, options.feed);
  double seconds = 0;
  set.run(
      [&](int tower) {
        std::optional<StagedBatch> batch = feed.next(tower);
        if (!batch) throw Error(ErrorCode::invalid_argument, "less than a batch of images");
        set.take(*batch, tower);
        towers::TowerSteps made(set, tower, *strategy, options.feed.mode,
                                [](const towers::LateLoss::Told&) {});
        double start = 0;
        for (std::uint64_t step = 0; step < kWarm + steps; ++step) {
          if (step == kWarm) {
            set.stream(tower).synchronize();
            start = now_s();
          }
          made.make(*batch, step);
        }
        set.stream(tower).synchronize();
        seconds = now_s() - start;
        batch->release(set.stream(tower));
      },
      [&](const Status& status) {
        strategy->fail(status);
        feed.cancel();
      });
  return static_cast<double>(steps) * static_cast<double>(options.batch) / seconds;
}

/// The same from the images; begins to measure behind the first steps.
class Timed final : public towers::TrainObserver {
 public:
  void on_step(const towers::StepReport& report) override {
    if (report.step == kWarm) start_ = now_s();
    end_ = now_s();
    last_ = report.step;
  }
  double steps_per_second() const { return static_cast<double>(last_ - kWarm) / (end_ - start_); }

 private:
  double start_ = 0, end_ = 0;
  std::uint64_t last_ = 0;
};

int run(char** arguments, bool on_device) {
  const std::string precision = arguments[2];
  const towers::ModelKind& kind = towers::model_kind(arguments[3]);
  towers::TrainOptions options;
  options.devices = devices(arguments[1]);
  options.precision = precision == "bf16"   ? towers::Precision::bf16
                      : precision == "tf32" ? towers::Precision::tf32
                                            : towers::Precision::f32;
  options.batch = std::strtol(arguments[5], nullptr, 10);
  const std::uint64_t steps = std::strtoull(arguments[6], nullptr, 10);
  options.strategy.update = {towers::make_optimizer(kind.optimizer),
                             towers::Schedule::constant(0.01)};
  options.epochs = UINT64_MAX / 2;
  options.feed.run.epochs = options.epochs;
  towers::check_options(options);
  const Dataset input = kind.input(images(arguments[4]).shuffle(), true);
  const double kept = resident(kind, input, options, steps);
  options.max_steps = kWarm + steps + 1;
  if (on_device) options.on_device = kind.images(true);
  const Dataset fed_input =
      on_device ? towers::model_input_on_device(kind, images(arguments[4]).shuffle(), true) : input;
  towers::Trainer trainer(kind.make, fed_input, std::nullopt, options);
  Timed timed;
  const towers::TrainResult result = trainer.run(timed);
  const double fed = timed.steps_per_second() * static_cast<double>(options.batch);
  const TowerStats& tower = result.feed.towers.front();
  std::string causes;
  for (const auto& [cause, seconds] : tower.causes)
    causes += (causes.empty() ? "\"" : ", \"") + cause + "\": " + std::to_string(seconds);
  std::printf(
      "{\"device\": \"%s\", \"model\": \"%s\", \"precision\": \"%s\", \"batch\": %lld, "
      "\"resident_images_per_second\": %.1f, \"images_per_second\": %.1f, \"ratio\": %.4f, "
      "\"stall_share\": %.4f, \"causes\": {%s}, \"first_loss\": %.4f, \"last_loss\": %.4f}\n",
      options.devices.front()->name().c_str(), kind.name.c_str(), precision.c_str(),
      static_cast<long long>(options.batch), kept, fed, fed / kept, tower.stall_share(),
      causes.c_str(), static_cast<double>(result.losses.front()),
      static_cast<double>(result.losses.back()));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  const bool on_device = count == 8 && std::string_view(arguments[7]) == "on-device";
  if (count != 7 && !on_device) {
    std::fprintf(stderr,
                 "usage: penstock_towers_bench DEVICE PRECISION MODEL IMAGES BATCH STEPS "
                 "[on-device]\n");
    return 2;
  }
  try {
    return penstock::bench::run(arguments, on_device);
  } catch (const penstock::Error& error) {
    std::fprintf(stderr, "penstock_towers_bench: %s\n", error.what());
    return 1;
  }
}
