#include <cstdio>
#include <memory>
#include <string>

#include <penstock/error.h>
#include <penstock/towers/model_input.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/train_input_flags.h"
#include "tools/penstock/run/evaluation_text.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/support/exit_code.h"
#include "towers/checkpoint/stored_variables.h"

namespace penstock::tool {
namespace {

class Evaluate final : public Command {
 public:
  explicit Evaluate(CLI::App& program)
      : Command(program, "evaluate",
                "compute loss, accuracy, AUC, precision and recall of trained variables",
                "penstock evaluate --model cifar10 --variables best.safetensors \\\n"
                "      --data cifar10-test.tar --json -") {
    add("--model", model_, "NAME", join(towers::model_names(), ", "))->required();
    add("--variables", variables_, "PATH",
        "an exported file, a checkpoint, or a folder of checkpoints (the newest is used)")
        ->required();
    input_.add_to(*app(), DataUse::evaluate);
    add("--device", devices_, "LIST", "devices, as for train (default host:0)");
    add("--batch", options_.batch, "ROWS", "rows in each device's batches (default 64)")
        ->check(above_zero());
    add("--tower-threads", options_.threads, "N", "compute threads (default: all)")
        ->check(CLI::Range(1, 4096));
    add("--json", json_, "FILE", "write the result as JSON (-: to stdout)");
    app()->add_flag("--quiet", quiet_, "print errors only");
  }

  int run() override {
    check_output(json_);
    const towers::ModelKind& kind = input_.kind(model_);
    input_.apply_to(options_.feed.run);
    options_.devices = devices(devices_);
    if (!input_.has_data()) throw UsageError("there are no data to evaluate with", "--data");
    options_.class_weights = input_.class_weights(kind, options_.feed.run);
    const Dataset test = towers::model_input(kind, input_.data(kind), false);
    const towers::Evaluation found = towers::evaluate_stored(kind.make, test, options_, variables_);
    if (!quiet_) std::fprintf(json_ == "-" ? stderr : stdout, "%s\n", test_text(found).c_str());
    if (!json_.empty()) write_output(json_, evaluation_json(found));
    return kOk;
  }

 private:
  template <typename T>
  CLI::Option* add(const char* flag, T& value, const char* type, const std::string& help) {
    return app()->add_option(flag, value, help)->type_name(type);
  }

  towers::TrainOptions options_;
  TrainInputFlags input_;
  std::string model_, variables_, json_;
  std::string devices_ = "host:0";
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_evaluate(CLI::App& program) {
  return std::make_unique<Evaluate>(program);
}

}  // namespace penstock::tool
