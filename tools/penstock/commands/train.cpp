#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <penstock/error.h>
#include <penstock/feed.h>
#include <penstock/towers/model_input.h>
#include <penstock/towers/trainer.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/choose.h"
#include "tools/penstock/commands/choose_measure.h"
#include "tools/penstock/commands/cluster_flags.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/evaluator_flags.h"
#include "tools/penstock/commands/train_input_flags.h"
#include "tools/penstock/run/model_folder.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/run/parameter_role.h"
#include "tools/penstock/run/trace_exchange.h"
#include "tools/penstock/run/train_data.h"
#include "tools/penstock/run/train_facts.h"
#include "tools/penstock/run/train_view.h"
#include "tools/penstock/run/variable_update.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/messages.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/run_folder.h"
#include "towers/train/out_of_step.h"

namespace penstock::tool {
namespace {

class Train final : public Command {
 public:
  explicit Train(CLI::App& program)
      : Command(program, "train", "train a model on one tower or many",
                "penstock train --model cifar10 --data cifar10-train.tar \\\n"
                "      --eval-data cifar10-test.tar --device host:0,host:1 --epochs 8") {
    add("Model", "--model", model_, "NAME", join(towers::model_names(), ", "))->required();
    input_.add_to(*app(), DataUse::train);
    app()->add_flag("--no-shuffle", keep_order_, "keep the order of the data")->group("Data");
    add("Data", "--shuffle-buffer", buffer_, "ROWS",
        "shuffle within a buffer of this size, which also works without an index, as for "
        "compressed files (default: perfect shuffle)")
        ->excludes("--no-shuffle")
        ->check(above_zero());
    app()
        ->add_flag("--no-augment", plain_, "train without augmentation, on elements as evaluated")
        ->group("Data");
    add("Model", "--init", options_.initial_variables, "FILE",
        "safetensors file with the initial values of variables");
    app()
        ->add_flag("--init-cast", options_.cast_initial_variables,
                   "convert f16, bf16 and f64 in that file to f32")
        ->group("Model")
        ->needs("--init");
    add("Model", "--optimizer", optimizer_, "RULE",
        "sgd, momentum:M, nesterov:M or adam:B1:B2:EPSILON; default: the model's, with less "
        "momentum for async, where late gradients act as momentum");
    add("Model", "--schedule", schedule_, "RATE",
        "constant:R, step:R:FACTOR:EVERY, cosine:R or one_cycle:R[:WARM]; default: the model's");
    add("Model", "--clip-norm", clip_norm_, "NORM", "limit on the norm of all gradients together")
        ->check(above_zero());
    choose<bool>(
        add("Model", "--on-divergence", options_.strategy.update.stop_if_diverged, "HOW",
            "if the loss is not a number, or beyond 1e18: stop (default) with exit code 76, or "
            "continue with a warning; neither keeps a checkpoint of such variables"),
        {{"stop", true}, {"continue", false}});
    add_towers();
    cluster_.add_to(*app());
    cluster_.add_exchange_to(*app());
    const std::string run = "Run";
    add(run, "--batch", options_.batch, "ROWS", "rows in each tower's batches (default 64)")
        ->check(above_zero());
    add(run, "--epochs", options_.epochs, "N", "default 1")->check(above_zero());
    add(run, "--max-steps", options_.max_steps, "N", "stop after N updates")->check(above_zero());
    add(run, "--eval-every", options_.evaluate_every, "N",
        "evaluate every N updates (default: each epoch)")
        ->check(above_zero());
    evaluator_.add_to(*app());
    add("Evaluation", "--early-stop", options_.patience, "N",
        "stop after N evaluations in a row without improvement; the best checkpoint is kept beside "
        "the newest")
        ->check(CLI::Range(1, 1'000'000));
    choose_measure(
        add("Evaluation", "--early-stop-by", options_.patience_by, "FIGURE", kMeasureHelp)
            ->needs("--early-stop"));
    add(run, "--checkpoint", options_.checkpoint_folder, "DIR",
        "keep checkpoints in this folder, also on s3://, and resume from the newest; an "
        "evaluator can follow a local folder only");
    add(run, "--checkpoint-every", options_.checkpoint_every, "N",
        "keep a checkpoint every N updates (default: each epoch), and at SIGTERM and SIGINT")
        ->needs("--checkpoint")
        ->check(above_zero());
    add(run, "--keep", options_.checkpoints_kept, "N",
        "how many of the newest checkpoints to keep (default 2); keep all for an evaluator that is "
        "slower than training")
        ->needs("--checkpoint")
        ->check(CLI::Range(1, 1'000'000));
    add(run, "--export", export_, "FILE", "write the variables as safetensors at the end");
    add(run, "--export-model", model_folder_, "DIR",
        "at the end, write all that predict needs to this folder: variables, classes, columns and "
        "the pipeline");
    add(run, "--seed", options_.seed, "N", "seed of variables, order and augmentation (default 0)");
    app()
        ->add_flag("--deterministic", options_.deterministic,
                   "bit-identical results on every machine of this kind: one thread for each "
                   "tower, towers in step; on GPUs, only kernels that sum in a fixed order")
        ->group(run);
    add(run, "--tensorboard", events_, "DIR",
        "write loss and accuracy to this folder for TensorBoard");
    add(run, "--trace", trace_, "FILE",
        "write a timeline of the towers and input threads of all ranks, for Perfetto");
    add(run, "--json", json_, "FILE", "write the result as JSON (-: to stdout)");
    add(run, "--html", html_, "FILE", "write the result as a page for a browser");
    app()->add_flag("--quiet", quiet_, "no progress and no summary; only errors")->group(run);
  }

  int run() override {
    // With checkpoints, no work is lost. So the exit code after SIGTERM tells a scheduler that
    // preempts the machine that all is well.
    Interrupts interrupts(options_.checkpoint_folder.empty() ? kTerminated : kOk);
    const std::vector<std::string> folders{options_.checkpoint_folder, events_, model_folder_};
    const std::string& best = evaluator_.best();
    check_distinct({{"--json", json_},
                    {"--html", html_},
                    {"--export", export_},
                    {"--export-best", best},
                    {"--quarantine", input_.quarantine()},
                    {"--trace", trace_}});
    for (const std::string& path : {json_, html_, export_, best, trace_})
      check_output(path, folders);
    check_model_folder(model_folder_);
    const cluster::Cluster who = cluster_.resolve();
    const towers::ModelKind& kind = input_.kind(model_);
    finish_options(kind, who.role == cluster::Role::parameter_server);
    if (who.role == cluster::Role::evaluator) {
      if (input_.has_eval_data())
        options_.class_weights = input_.class_weights(kind, options_.feed.run);
      return evaluator_.follow(kind, test_data(kind), options_, {json_, events_, quiet_},
                               interrupts);
    }
    if (!input_.has_data()) throw UsageError("training needs data to train on", "--data");
    if (who.role == cluster::Role::parameter_server) {
      check_as_chief(who, options_, [&] {
        if (!who.lists(cluster::Role::evaluator)) test_data(kind);
        if (!input_.counts_labels())  // which reads all data
          static_cast<void>(input_.class_weights(kind, options_.feed.run));
        return to_train(kind, input_.data(kind));
      });
      return be_parameter_server(who, cluster_.rendezvous(), interrupts);
    }
    const Dataset stored = input_.data(kind);
    options_.class_weights = input_.class_weights(kind, options_.feed.run);
    const Dataset train_on = to_train(kind, stored);
    if (on_device_) options_.on_device = kind.images(!plain_);
    std::optional<Dataset> test;
    // Rank 0 does not evaluate if the job lists an evaluator.
    if (!who.lists(cluster::Role::evaluator)) test = test_data(kind);
    const cluster::Facts common = facts(stored, train_on);
    JobServers servers(who, cluster_.rendezvous(), options_.strategy, common);
    std::unique_ptr<cluster::Job> job;
    try {
      if (!servers.hold_variables()) job = cluster_.join(common);
      return servers.ended(train(kind, train_on, test, job.get(), interrupts));
    } catch (...) {
      const Status why = status_from_current_exception();
      servers.failed(why);
      if (job == nullptr) {
        const bool diverged = why.error().code() == ErrorCode::diverged;
        if (!diverged && !servers.is_loss(why)) throw;
        print_error(why.error().what());
        return diverged ? kDiverged : kNoProgress;
      }
      const Status ended = job->status();
      job->fail(why);  // the other processes wait for this one
      const bool by_others =
          !ended.ok() && why.error().cause().find(ended.error().cause()) != std::string::npos;
      if (!by_others && why.error().code() == ErrorCode::diverged) {
        print_error(why.error().what());
        return kDiverged;
      }
      if (!by_others) throw;
      print_error(ended.error().what());
      return kNoProgress;
    }
  }

 private:
  int train(const towers::ModelKind& kind, const Dataset& train, const std::optional<Dataset>& test,
            cluster::Job* job, Interrupts& interrupts) {
    options_.strategy.peers = job;
    const bool first = cluster_.resolve().is_chief();
    if (!trace_.empty()) trace_exchange(options_.strategy, job == nullptr ? 1 : job->size());
    towers::Trainer trainer(kind.make, train, test, options_);
    const std::string& folder = options_.checkpoint_folder;
    const std::uint64_t before = trainer.strategy().step();
    const bool marks = first && !folder.empty();  // marks the end of training in the folder
    if (marks && (trainer.planned_steps() == 0 || before < trainer.planned_steps()))
      towers::remove_finished(folder);
    const std::unique_ptr<towers::BestExport> best =
        first && test ? evaluator_.open_best(before > 0) : nullptr;
    towers::TrainResult result;
    RankWatch watch(trainer, job);
    std::vector<RankFigures> ranks;
    std::string trace;
    {
      std::optional<EventFile> events;
      if (!events_.empty() && first) events.emplace(events_, before + 1);
      TrainView view(quiet_ || !first ? nullptr : stderr, trainer, watch,
                     events ? &*events : nullptr, best.get());
      const Cancellation cancellation(interrupts, [&] { trainer.stop(); });
      try {
        result = trainer.run(view);
        view.end(result);
        ranks = watch.gather(result.feed, std::chrono::steady_clock::now());
        if (!trace_.empty()) trace = watch.gather_trace();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::no_progress) {
          print_error(error.what());
          std::fflush(nullptr);
          _exit(kNoProgress);  // destructors would wait for threads that hang
        }
        if (job != nullptr && !job->status().ok()) {
          print_error(job->status().error().what());
          return kNoProgress;
        }
        if (error.code() != ErrorCode::device_lost) throw;
        print_error(error.what());
        return kDeviceLost;
      }
    }
    if (!export_.empty() && first)
      towers::export_variables(trainer.variables(), export_, input_.classes(trainer.classes()),
                               {{"step", std::to_string(result.steps)}});
    if (first)
      write_model_folder(model_folder_,
                         {model_, result.steps, input_.classes(trainer.classes()),
                          input_.components(), input_.element_pipeline(), input_.stored_columns()},
                         trainer.variables());
    if (!quiet_ && first)
      std::fputs(train_text(result, ranks).c_str(), json_ == "-" || html_ == "-" ? stderr : stdout);
    if (!json_.empty() && first) write_output(json_, train_json(result, ranks));
    if (!html_.empty() && first) write_output(html_, train_html(model_, result, ranks));
    if (!trace_.empty() && first) write_output(trace_, trace);
    if (marks && !result.stopped)
      towers::write_finished(folder, {result.steps, options_.epochs, options_.max_steps});
    return interrupts.received() != 0 ? interrupts.exit_code() : judged(result.feed.run.errors);
  }

  Dataset to_train(const towers::ModelKind& kind, const Dataset& stored) const {
    if (!on_device_) return towers::model_input(kind, shuffled(stored), !plain_);
    return towers::model_input_on_device(kind, shuffled(stored), !plain_);
  }

  std::optional<Dataset> test_data(const towers::ModelKind& kind) const {
    if (!input_.has_eval_data()) return std::nullopt;
    return towers::model_input(kind, input_.eval_data(kind), false);
  }

  Dataset shuffled(const Dataset& stored) const {
    if (keep_order_ || (buffer_ == 0 && input_.orders())) return stored;
    if (buffer_ > 0) return stored.shuffle({.buffer = buffer_});
    try {
      return stored.shuffle();
    } catch (const Error& error) {
      throw UsageError(error.cause(), "--shuffle-buffer");
    }
  }

  /// Returns the facts that must be equal in all processes of a job.
  cluster::Facts facts(const Dataset& stored, const Dataset& train) const {
    if (cluster_.resolve_for_reports().world == 1) return {};
    cluster::Facts facts = cluster_.facts();
    facts.merge(facts_of(options_));
    facts.merge(cluster::Facts{{"model", model_},
                               {"columns", input_.columns()},
                               {"data", fingerprint_of(stored, input_.trusts_data())},
                               {"graph", graph_of(train)},
                               {"evaluation data", input_.has_eval_data() ? "given" : "none"},
                               {"bad elements", input_.on_error()},
                               {"weights", input_.weights()},
                               {"strategy", strategy_ + ", " + combine_},
                               {"trace", trace_.empty() ? "no" : "yes"}});
    return facts;
  }

  template <typename T>
  CLI::Option* add(const std::string& group, const char* flag, T& value, const char* type,
                   const std::string& help) {
    return app()->add_option(flag, value, help)->type_name(type)->group(group);
  }

  void add_towers() {
    const std::string group = "Towers";
    add(group, "--device", devices_, "LIST",
        "train a tower on each of these: host:0,host:1 or cuda:0,cuda:1; cuda: the one of this "
        "process's local rank (default host:0)");
    add(group, "--virtual-towers", options_.virtual_towers, "N",
        "number of towers, divided among the devices of all processes, which compute theirs in "
        "turn: the same variables on any number of devices that divides N (default: a tower for "
        "each device, or as many as the checkpoint has)")
        ->check(CLI::Range(1, 4096));
    choose<towers::Precision>(
        add(group, "--precision", options_.precision, "TYPE",
            "f32 (default); on cuda devices also tf32, or bf16 with variables in f32"),
        {{"f32", towers::Precision::f32},
         {"tf32", towers::Precision::tf32},
         {"bf16", towers::Precision::bf16}});
    app()
        ->add_flag("--on-device", on_device_,
                   "decode the JPEGs of the training data on the towers' devices")
        ->group(group);
    add(group, "--eval-device", eval_device_, "DEVICE",
        "evaluate on this device during training (default: on the towers, between steps)");
    add(group, "--strategy", strategy_, "NAME",
        "replicated (default), parameter_device, spread, async, sync_replicas, model_parallel or "
        "independent");
    add(group, "--variable-update", variable_update_, "NAME",
        "the strategy by its name in TensorFlow's CNN benchmarks: " + variable_update_names());
    add(group, "--combine", combine_, "HOW", "average (default) or sum of towers' gradients")
        ->check(CLI::IsMember({"average", "sum"}));
    add(group, "--aggregate", options_.strategy.aggregate, "N",
        "sync_replicas: gradients for each update (default: one for each tower)")
        ->check(above_zero());
    add(group, "--max-staleness", options_.strategy.max_staleness, "N",
        "async: drop gradients that are more than N updates old")
        ->check(CLI::NonNegativeNumber);
    add(group, "--bucket", bucket_, "BYTES",
        "size of the pieces in which gradients are exchanged during the backward pass (default "
        "4MiB)");
    app()
        ->add_flag("--nccl-alone", options_.strategy.nccl_alone,
                   "use NCCL even with one GPU, to check that it works here")
        ->group(group);
    choose_feed_mode(
        add(group, "--feed", options_.feed.mode, "MODE", "split, per_tower (default) or sharded"));
    choose_epoch_end(add(group, "--epoch-end", options_.feed.end, "POLICY",
                         "drop (default), pad, wrap or stop"));
    add(group, "--watchdog", options_.feed.watchdog_s, "S",
        "give up (exit code 75) when a copy or another tower's turn takes this long (default 60)")
        ->check(above_zero());
    add(group, "--tower-threads", options_.threads, "N",
        "threads that compute a tower's steps (default: all, divided among the processes on this "
        "host)")
        ->check(CLI::Range(1, 4096));
  }

  /// `serves`: the process computes nothing, and needs no devices.
  void finish_options(const towers::ModelKind& kind, bool serves) {
    input_.apply_to(options_.feed.run,
                    {"--eval-every", "--eval-device", "--early-stop", "--export-best"});
    options_.model = kind.name;
    const auto named = [&](const std::string& list) { return serves ? stand_ins(list) : list; };
    if (serves && devices_.find("cuda") != std::string::npos) options_.precision = {};
    options_.devices = devices(named(cluster_.devices(devices_)));
    options_.processes_here = cluster_.resolve().computing_here();
    if (!eval_device_.empty())
      options_.validation_device = device(DeviceId::parse(named(eval_device_)));
    towers::StrategyOptions& strategy = options_.strategy;
    if (!variable_update_.empty())
      strategy_ = strategy_named(variable_update_, cluster_.resolve(),
                                 app()->count("--strategy") > 0 ? strategy_ : "");
    strategy.kind = parse_strategy(strategy_, cluster_.resolve());
    if (cluster_.compresses() && options_.deterministic)
      throw UsageError(
          "rounds gradients, so results would depend on the number of processes: not with "
          "--deterministic",
          "--compress");
    const auto only_of = [&](towers::StrategyKind user, const char* flag) {
      if (app()->count(flag) > 0 && strategy.kind != user)
        throw UsageError("applies to " + std::string(name_of(user)) + ", not to " + strategy_,
                         flag);
    };
    only_of(towers::StrategyKind::sync_replicas, "--aggregate");
    only_of(towers::StrategyKind::async, "--max-staleness");
    towers::UpdateTexts updates{optimizer_, schedule_};
    if (optimizer_.empty() && schedule_.empty() && strategy.kind == towers::StrategyKind::async)
      updates = towers::updates_out_of_step(
          kind, static_cast<int>(options_.devices.size()) * cluster_.resolve().world);
    strategy.combine = combine_ == "sum" ? towers::Combine::sum : towers::Combine::average;
    strategy.update.optimizer =
        towers::make_optimizer(updates.optimizer.empty() ? kind.optimizer : updates.optimizer);
    strategy.update.schedule =
        towers::Schedule::parse(updates.schedule.empty() ? kind.schedule : updates.schedule);
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
  ClusterFlags cluster_;
  EvaluatorFlags evaluator_;
  TrainInputFlags input_;
  std::string model_, optimizer_, schedule_;
  float clip_norm_ = 0;
  std::string devices_ = "host:0", eval_device_;
  std::string strategy_ = "replicated", variable_update_;
  std::string combine_ = "average", bucket_;
  std::string json_, html_;
  std::string export_, model_folder_, events_, trace_;
  bool keep_order_ = false;
  std::uint64_t buffer_ = 0;
  bool plain_ = false;
  bool on_device_ = false;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train(CLI::App& program) {
  return std::make_unique<Train>(program);
}

}  // namespace penstock::tool
