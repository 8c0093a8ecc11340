#include "tools/penstock/commands/train_input_flags.h"

#include <algorithm>
#include <utility>

#include <penstock/error.h>
#include <penstock/image.h>
#include <penstock/remote_files.h>
#include <penstock/towers/model_input.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/train_weights.h"

namespace penstock::tool {
namespace {

template <typename F>
auto of_flag(const std::string& flag, const F& make) {
  try {
    return make();
  } catch (const UsageError& error) {
    throw error.at(flag);
  }
}

/// Loads a pipeline that makes single elements. Throws UsageError for stages and settings that
/// belong to the command itself.
PipelineSpec load_elements(const std::string& path) {
  PipelineSpec spec = load_pipeline(path);
  for (const Settings& stage : spec.stages)
    if (stage.kind().role == StageRole::batch)
      throw UsageError("this command makes the batches itself: remove the stage " +
                       in_quotes(stage.kind().name) + " from " + path);
  if (leaves_work_to_device(spec))
    throw UsageError("this command decodes images on the host: remove on_device from " + path);
  for (const char* own : {"epochs", "seed", "batches", "step_ms", "workers"})
    if (spec.run.has(own))
      throw UsageError("this command's flags set this, not [run]: remove it from " + path, own);
  return spec;
}

}  // namespace

void TrainInputFlags::add_to(CLI::App& app, DataUse use) {
  app_ = &app;
  use_ = use;
  const auto add = [&app](const std::string& flag, auto& value, const char* type,
                          const char* help) {
    return app.add_option(flag, value, help)->type_name(type)->group("Data");
  };
  const auto add_data = [&](Data& data, const char* help) {
    add(data.flag, data.path, "PATH", help);
    add(data.range_flag, data.range, "A:B", "only records A up to B of these")->needs(data.flag);
    add(data.pipeline_flag, data.pipeline, "FILE.toml",
        "instead, a pipeline that makes the elements, with the component names of the model")
        ->excludes(data.flag);
  };
  columns_.add_to(app);
  add_data(data_,
           "images: .tar, .pnr (image records), .bin (CIFAR-10), IMAGES,LABELS (IDX, or .npy) or a "
           "folder; texts: .csv; .tfrecord (tf.Example); with --columns .tfrecord or .csv");
  if (use == DataUse::train)
    add_data(eval_, "evaluation data in the same formats, used after each epoch");
  add("--component", components_, "MODEL=DATA",
      "the name in the data of a component of the model, such as image=jpeg: a CSV column, a "
      "feature of a tf.Example, or a component of a pipeline; may be given several times")
      ->delimiter(',');
  add("--label-regex", label_regex_, "REGEX",
      "images and tar: regex whose group is the class; matched against the path if it has a /, "
      "else against the file's name");
  add("--label-depth", label_depth_, "N",
      "images: which folder names the class: 1 is the first below the root (default for a folder), "
      "0 the parent folder (default for a pattern)")
      ->check(CLI::Range(0, 1000));
  app.add_flag(
         "--hidden", hidden_,
         "images and tar: include hidden files, folders and members, whose names begin with a dot")
      ->group("Data");
  app.add_flag("--strict-images", strict_images_,
               "reject images with decoder warnings, even if no pixel changes")
      ->group("Data");
  if (use != DataUse::predict) {
    add("--weight-column", weight_column_, "NAME",
        "the column, feature or component with each row's weight in the loss and in evaluations");
    add("--class-weights", class_weights_, "WEIGHTS",
        "weights of the classes in both: 1,2.5,1 in the order of labels, balanced (by how rare a "
        "class is in the training data, which are read once more), or a file of lines NAME,WEIGHT");
  }
  add("--memory", memory_, "BYTES",
      "memory for the input (default: a quarter of the container's, at most 2GiB)");
  add("--on-error", on_error_, "POLICY",
      "how to handle a bad element: fail (default) ends the run, skip drops it, retry repeats "
      "reads after transient failures")
      ->check(CLI::IsMember({"fail", "skip", "retry"}));
  add("--max-errors", max_errors_, "N|SHARE%",
      "with skip: end the run after more bad elements than this (default: no limit)");
  add("--quarantine", quarantine_, "FILE",
      "with skip: append bad records to this file, as JSON lines");
  if (use == DataUse::train)
    app.add_flag("--trust-data", trust_data_,
                 "accept a state if the files have the same names and sizes, without reading them, "
                 "and objects on servers by their size and Last-Modified");
}

std::vector<std::pair<std::string, std::string>> TrainInputFlags::components() const {
  if (components_.empty() && model_) return model_->components;
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& text : components_) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      throw UsageError("expected MODEL=DATA, got " + in_quotes(text), "--component");
    names.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return names;
}

std::optional<PipelineSpec> TrainInputFlags::pipeline() const {
  if (data_.pipeline.empty()) return std::nullopt;
  return of_flag(data_.pipeline_flag, [&] { return load_elements(data_.pipeline); });
}

std::optional<PipelineSpec> TrainInputFlags::element_pipeline() const {
  const Data& data = eval_.pipeline.empty() ? data_ : eval_;
  if (data.pipeline.empty()) return std::nullopt;
  return of_flag(data.pipeline_flag, [&] { return element_ops(load_elements(data.pipeline)); });
}

void TrainInputFlags::use(const ModelFolder& model, const std::string& folder) {
  model_ = model;
  columns_.use(std::exchange(model_->columns, std::nullopt), folder);
}

bool TrainInputFlags::orders() const {
  const std::optional<PipelineSpec> spec = pipeline();
  return spec && std::ranges::any_of(spec->stages, [](const Settings& stage) {
           return stage.kind().role == StageRole::shuffle;
         });
}

Dataset TrainInputFlags::open(const Data& data, const towers::ModelKind& kind) const {
  TrainDataOptions options{.label_regex = label_regex_,
                           .label_depth = label_depth_,
                           .hidden = hidden_,
                           .takes = kind.takes,
                           .names = components(),
                           .weight_column = weight_column_,
                           .labels = use_ != DataUse::predict};
  for (const auto& names : options.names) {
    const std::string& own = names.first;
    const auto is_own = [&own](const towers::TakenComponent& taken) { return taken.name == own; };
    if (!kind.takes.empty() && std::ranges::none_of(kind.takes, is_own))
      throw UsageError(kind.name + " has no component " + in_quotes(own), "--component");
  }
  if (columns_.is_given() && !options.names.empty())
    throw UsageError("the columns file names the features", "--component");
  if (strict_images_) choose_strict_images(true);  // the models' input stages decode
  if (trust_data_) {
    RemoteOptions trusting;
    trusting.trust_dates = true;
    choose_remote(trusting);
  }
  const auto piped = [&](PipelineSpec spec) {
    if (trust_data_) spec.run.set("trust_data", true);
    const Dataset elements = build(spec);
    return columns_.is_given() ? columns_.piped(elements, options.labels) : elements;
  };
  const auto opened = [&] {
    if (!data.pipeline.empty())
      return of_flag(data.pipeline_flag, [&] { return piped(load_elements(data.pipeline)); });
    return of_flag(data.flag, [&] {
      if (model_ && model_->pipeline) return piped(with_data(*model_->pipeline, data.path));
      if (columns_.is_given()) return columns_.open(data.path, options);
      return open_train_data(data.path, options);
    });
  };
  const Dataset all = opened();
  const Dataset kept = of_flag(data.range_flag, [&] { return records_in(all, data.range); });
  if (columns_.is_given()) options.labels = true;  // under a name that differs from the models'
  return of_flag(options.names.empty() ? "--weight-column" : "--component",
                 [&] { return fitted(kept, options); });
}

std::vector<towers::ClassWeight> TrainInputFlags::class_weights(const towers::ModelKind& kind,
                                                                const RunOptions& options) const {
  if (class_weights_.empty()) return {};
  if (!has_data() && class_weights_ == "balanced")
    throw UsageError("balanced weights need --data, whose labels they count", "--class-weights");
  Dataset stored = has_data() ? data(kind) : eval_data(kind);
  if (columns_.is_given()) stored = kind.input(stored, false);  // which finds the labels
  return of_flag("--class-weights",
                 [&] { return parse_class_weights(class_weights_, stored, options); });
}

void TrainInputFlags::apply_to(RunOptions& options,
                               const std::vector<std::string>& of_evaluation) const {
  for (const std::string& flag : of_evaluation)
    if (!has_eval_data() && app_->count(flag) > 0)
      throw UsageError("needs --eval-data or --eval-pipeline", flag);
  if (const std::optional<PipelineSpec> spec = pipeline())
    options = of_flag(data_.pipeline_flag, [&] { return run_options(*spec, options.seed); });
  if (!memory_.empty())
    of_flag("--memory", [&] {
      options.memory_bytes = static_cast<std::uint64_t>(parse_bytes(memory_));
      return 0;
    });
  if (on_error_ == "skip") options.on_error = OnError::skip;
  if (on_error_ == "retry") options.on_error = OnError::retry;
  const auto needs_skip = [&](const std::string& value, const char* flag) {
    if (!value.empty() && options.on_error != OnError::skip)
      throw UsageError("needs --on-error skip", flag);
  };
  needs_skip(max_errors_, "--max-errors");
  needs_skip(quarantine_, "--quarantine");
  if (!max_errors_.empty())
    of_flag("--max-errors", [&] {
      const ErrorBudget budget = parse_error_budget(max_errors_);
      options.max_errors = budget.count;
      options.max_error_share = budget.share;
      return 0;
    });
  if (!quarantine_.empty()) options.quarantine = quarantine_;
  if (trust_data_) options.trust_data = true;
}

}  // namespace penstock::tool
