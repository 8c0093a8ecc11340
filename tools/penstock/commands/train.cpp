#include <cstdio>
#include <string>
#include <vector>

#include <unistd.h>

#include <penstock/error.h>
#include <penstock/feed.h>

#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/choose.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/run/train_data.h"
#include "tools/penstock/run/train_view.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"
#include "tools/penstock/support/usage_error.h"
#include "towers/checkpoint.h"
#include "towers/trainer.h"

namespace penstock::tool {
namespace {

class Train final : public Command {
 public:
  explicit Train(CLI::App& program)
      : Command(program, "train", "train a model on one tower or many",
                "penstock train --model cifar10 --data cifar10-train.tar \\\n"
                "      --eval-data cifar10-test.tar --device host:0,host:1 --epochs 8") {
    add("Data", "--data", data_, "PATH",
        "labelled images: .tar, .pnr (image records), .bin (CIFAR-10), IMAGES,LABELS (IDX) or a "
        "folder; texts: .csv")
        ->required();
    add("Data", "--data-range", data_range_, "A:B", "of these, records A up to B");
    add("Data", "--eval-data", eval_data_, "PATH", "the same to evaluate with, after each epoch");
    add("Data", "--eval-range", eval_range_, "A:B", "of these, records A up to B")
        ->needs("--eval-data");
    add("Model", "--model", model_, "NAME", join(towers::model_names(), ", "))->required();
    app()->add_flag("--no-shuffle", keep_order_, "keep the order of the data")->group("Data");
    app()
        ->add_flag("--no-augment", plain_, "train on elements as they are evaluated")
        ->group("Data");
    add("Model", "--init", options_.initial_variables, "FILE",
        "safetensors with the values that variables begin with");
    add("Model", "--optimizer", optimizer_, "RULE",
        "sgd, momentum:M, nesterov:M or adam:B1:B2:EPSILON; default: the model's");
    add("Model", "--schedule", schedule_, "RATE",
        "constant:R, step:R:FACTOR:EVERY, cosine:R or one_cycle:R[:WARM]; default: the model's");
    add("Model", "--clip-norm", clip_norm_, "NORM", "bounds the norm of all gradients together")
        ->check(above_zero());
    add_towers();
    const std::string run = "Run";
    add(run, "--batch", options_.batch, "ROWS", "of each tower's batches (default 64)")
        ->check(above_zero());
    add(run, "--epochs", options_.epochs, "N", "default 1")->check(above_zero());
    add(run, "--max-steps", options_.max_steps, "N", "updates at most")->check(above_zero());
    add(run, "--eval-every", options_.evaluate_every, "N", "updates; default: each epoch")
        ->needs("--eval-data")
        ->check(above_zero());
    add(run, "--checkpoint", options_.checkpoint_folder, "DIR",
        "keep checkpoints there, and go on from the newest");
    add(run, "--checkpoint-every", options_.checkpoint_every, "N",
        "updates; default: each epoch; SIGTERM and SIGINT make one too")
        ->needs("--checkpoint")
        ->check(above_zero());
    add(run, "--export", export_, "FILE", "write the variables as safetensors at the end");
    add(run, "--seed", options_.seed, "N", "of variables, order and augmentation (default 0)");
    app()
        ->add_flag("--deterministic", options_.deterministic,
                   "the same bits on every machine of this kind: one thread for each tower, towers "
                   "in step; on GPUs only what sums in a fixed order")
        ->group(run);
    add(run, "--tensorboard", events_, "DIR", "write loss and accuracy there for TensorBoard");
    add(run, "--json", json_, "FILE", "write the result as JSON (-: to stdout)");
    app()->add_flag("--quiet", quiet_, "no progress and no summary; only errors")->group(run);
  }

  int run() override {
    // With checkpoints what was done is safe: whoever takes the machine away is told that all is
    // well.
    Interrupts interrupts(options_.checkpoint_folder.empty() ? kTerminated : kOk);
    const std::vector<std::string> folders{options_.checkpoint_folder, events_};
    check_distinct({{"--json", json_}, {"--export", export_}});
    for (const std::string& path : {json_, export_}) check_output(path, folders);
    const towers::ModelKind& kind = chosen_model();
    finish_options(kind);
    Dataset train = open("--data", data_, "--data-range", data_range_);
    if (!keep_order_) train = train.shuffle();
    train = kind.input(train, !plain_);
    std::optional<Dataset> test;
    if (!eval_data_.empty())
      test = kind.input(open("--eval-data", eval_data_, "--eval-range", eval_range_), false);
    towers::Trainer trainer(kind.make, train, test, options_);
    towers::TrainResult result;
    {
      std::optional<EventFile> events;
      if (!events_.empty()) events.emplace(events_);
      TrainView view(quiet_ ? nullptr : stderr, trainer, events ? &*events : nullptr);
      const Cancellation cancellation(interrupts, [&] { trainer.stop(); });
      try {
        result = trainer.run(view);
        view.end(result);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::no_progress) give_up(error);
        if (error.code() != ErrorCode::device_lost) throw;
        print_error(error.what());
        return kDeviceLost;
      }
    }
    if (!export_.empty()) towers::export_variables(trainer.variables(), export_);
    if (!quiet_) std::fputs(train_text(result).c_str(), json_ == "-" ? stderr : stdout);
    if (!json_.empty()) write_output(json_, train_json(result));
    return interrupts.received() != 0 ? interrupts.exit_code() : static_cast<int>(kOk);
  }

 private:
  template <typename T>
  CLI::Option* add(const std::string& group, const char* flag, T& value, const char* type,
                   const std::string& help) {
    return app()->add_option(flag, value, help)->type_name(type)->group(group);
  }

  void add_towers() {
    const std::string group = "Towers";
    add(group, "--device", devices_, "LIST",
        "a tower on each: host:0,host:1 or cuda:0,cuda:1 (default host:0)");
    choose<towers::Precision>(
        add(group, "--precision", options_.precision, "TYPE",
            "f32 (default); on cuda devices also tf32, or bf16 with variables in f32"),
        {{"f32", towers::Precision::f32},
         {"tf32", towers::Precision::tf32},
         {"bf16", towers::Precision::bf16}});
    add(group, "--eval-device", eval_device_, "DEVICE",
        "evaluate there, beside training; default: on the towers, in turn")
        ->needs("--eval-data");
    add(group, "--strategy", strategy_, "NAME",
        "replicated (default), parameter_device, spread, async, sync_replicas or model_parallel");
    add(group, "--combine", combine_, "HOW", "average (default) or sum of towers' gradients")
        ->check(CLI::IsMember({"average", "sum"}));
    add(group, "--aggregate", options_.strategy.aggregate, "N",
        "sync_replicas: gradients for each update; default: as many as towers")
        ->check(above_zero());
    add(group, "--max-staleness", options_.strategy.max_staleness, "N",
        "async: gradients that are more updates old are dropped")
        ->check(CLI::NonNegativeNumber);
    add(group, "--bucket", bucket_, "BYTES",
        "gradients that are exchanged in one piece, while backward goes on (default 4MiB)");
    choose_feed_mode(
        add(group, "--feed", options_.feed.mode, "MODE", "split, per_tower (default) or sharded"));
    choose_epoch_end(add(group, "--epoch-end", options_.feed.end, "POLICY",
                         "drop (default), pad, wrap or stop"));
    add(group, "--watchdog", options_.feed.watchdog_s, "S",
        "give up (exit code 75) when a copy takes so long (default 60)")
        ->check(above_zero());
    add(group, "--tower-threads", options_.threads, "N",
        "that compute a tower's steps; default: all, divided")
        ->check(CLI::Range(1, 4096));
  }

  const towers::ModelKind& chosen_model() const {
    try {
      return towers::model_kind(model_);
    } catch (const Error& error) {
      throw UsageError(error.cause(), "--model");
    }
  }

  template <typename F>
  static Dataset of_flag(const char* flag, const F& make) {
    try {
      return make();
    } catch (const UsageError& error) {
      throw error.at(flag);
    }
  }

  static Dataset open(const char* flag, const std::string& path, const char* range_flag,
                      const std::string& range) {
    const Dataset all = of_flag(flag, [&] { return open_train_data(path); });
    return of_flag(range_flag, [&] { return records_in(all, range); });
  }

  /// What hangs would keep destructors waiting.
  [[noreturn]] static void give_up(const Error& error) {
    print_error(error.what());
    std::fflush(nullptr);
    _exit(kNoProgress);
  }

  void finish_options(const towers::ModelKind& kind) {
    options_.devices = devices(devices_);
    if (!eval_device_.empty()) options_.validation_device = device(DeviceId::parse(eval_device_));
    towers::StrategyOptions& strategy = options_.strategy;
    strategy.kind = towers::parse_strategy(strategy_);
    const auto only_of = [&](towers::StrategyKind user, const char* flag) {
      if (app()->count(flag) > 0 && strategy.kind != user)
        throw UsageError("is of " + std::string(name_of(user)) + ", not of " + strategy_, flag);
    };
    only_of(towers::StrategyKind::sync_replicas, "--aggregate");
    only_of(towers::StrategyKind::async, "--max-staleness");
    strategy.combine = combine_ == "sum" ? towers::Combine::sum : towers::Combine::average;
    strategy.update.optimizer =
        towers::make_optimizer(optimizer_.empty() ? kind.optimizer : optimizer_);
    strategy.update.schedule =
        towers::Schedule::parse(schedule_.empty() ? kind.schedule : schedule_);
    if (!bucket_.empty()) {
      try {
        strategy.bucket_bytes = static_cast<std::size_t>(parse_bytes(bucket_));
      } catch (const UsageError& error) {
        throw error.at("--bucket");
      }
    }
    strategy.update.clip_norm = clip_norm_ > 0 ? clip_norm_ : kind.clip_norm;
  }

  towers::TrainOptions options_;
  std::string data_, data_range_, eval_data_, eval_range_;
  std::string model_, optimizer_, schedule_;
  float clip_norm_ = 0;
  std::string devices_ = "host:0";
  std::string eval_device_;
  std::string strategy_ = "replicated";
  std::string combine_ = "average";
  std::string bucket_;
  std::string json_;
  std::string export_, events_;
  bool keep_order_ = false;
  bool plain_ = false;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train(CLI::App& program) {
  return std::make_unique<Train>(program);
}

}  // namespace penstock::tool
