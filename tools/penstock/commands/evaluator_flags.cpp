#include "tools/penstock/commands/evaluator_flags.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <penstock/error.h>
#include <penstock/towers/model.h>

#include "pipelines/usage_error.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/choose_measure.h"
#include "tools/penstock/run/follow_view.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {
namespace {

CLI::Validator zero_or_more() {
  return {[](std::string& text) -> std::string {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0)
              return {};
            return "must be a finite number, 0 or more, not " + text;
          },
          "NONNEGATIVE"};
}

}  // namespace

void EvaluatorFlags::add_to(CLI::App& app) {
  app_ = &app;
  const std::string group = "Evaluation";
  app.add_option("--export-best", options_.best,
                 "write the variables with the best evaluation to this safetensors file; if the "
                 "job has an evaluator, the evaluator writes them")
      ->type_name("FILE")
      ->group(group);
  choose_measure(app.add_option("--export-best-by", best_by_, kMeasureHelp)
                     ->type_name("FIGURE")
                     ->group(group)
                     ->needs("--export-best"));
  app.add_option("--eval-start-delay", options_.follow.start_delay_s,
                 "--role evaluator: wait this long before the first evaluation (default 0)")
      ->type_name("S")
      ->group(group)
      ->check(zero_or_more());
  app.add_option("--eval-throttle", options_.follow.throttle_s,
                 "--role evaluator: minimum time between the starts of two evaluations; the newest "
                 "checkpoint is next (default 0: evaluate every kept checkpoint)")
      ->type_name("S")
      ->group(group)
      ->check(zero_or_more());
  app.add_option("--eval-timeout", options_.follow.timeout_s,
                 "--role evaluator: give up (exit code 75) after this long without a new "
                 "checkpoint or a sign of training (default 3600)")
      ->type_name("S")
      ->group(group)
      ->check(above_zero());
}

std::unique_ptr<towers::BestExport> EvaluatorFlags::open_best(bool resume) const {
  if (options_.best.empty()) return nullptr;
  return std::make_unique<towers::BestExport>(options_.best, best_by_, resume);
}

int EvaluatorFlags::follow(const towers::ModelKind& kind, const std::optional<Dataset>& test,
                           const towers::TrainOptions& train, const FollowOutputs& outputs,
                           Interrupts& interrupts) const {
  if (!test) throw UsageError("an evaluator needs evaluation data", "--eval-data");
  if (train.checkpoint_folder.empty())
    throw UsageError("an evaluator needs the checkpoint folder", "--checkpoint");
  towers::FollowerOptions options = options_;
  options.train = train;
  // Its command may be that of the others, with a device for each of their towers.
  options.train.devices.resize(std::min<std::size_t>(1, train.devices.size()));
  options.best_by = best_by_;
  if (app_->count("--epochs") > 0) options.epochs = train.epochs;
  if (app_->count("--max-steps") > 0) options.max_steps = train.max_steps;
  towers::Follower follower(kind.make, *test, options);
  FollowView view(outputs.quiet ? nullptr : outputs.json == "-" ? stderr : stdout, outputs.events);
  towers::FollowResult result;
  {
    const Cancellation cancellation(interrupts, [&] { follower.stop(); });
    try {
      result = follower.run(view);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_progress && error.code() != ErrorCode::device_lost) throw;
      print_error(error.what());
      return error.code() == ErrorCode::no_progress ? kNoProgress : kDeviceLost;
    }
  }
  if (!outputs.json.empty()) write_output(outputs.json, follow_json(result));
  return interrupts.received() != 0 ? interrupts.exit_code() : static_cast<int>(kOk);
}

}  // namespace penstock::tool
