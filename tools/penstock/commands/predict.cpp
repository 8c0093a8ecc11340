#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/towers/model_input.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/train_input_flags.h"
#include "tools/penstock/run/model_folder.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/run/prediction_file.h"
#include "tools/penstock/support/exit_code.h"
#include "towers/batch_rows.h"
#include "towers/evaluate/predictor.h"

namespace penstock::tool {
namespace {

/// The keys of rows that have not been written yet. Synchronised.
class Keys {
 public:
  void put(std::int64_t row, std::string key) {
    const MutexLock lock(mutex_);
    keys_[row] = std::move(key);
  }
  /// Removes and returns the key of a row. Rows are taken in order, so earlier rows that were not
  /// taken failed; their keys are dropped.
  std::string take(std::int64_t row) {
    const MutexLock lock(mutex_);
    const auto found = keys_.find(row);
    std::string key = found == keys_.end() ? std::string() : std::move(found->second);
    keys_.erase(keys_.begin(), keys_.upper_bound(row));
    return key;
  }

 private:
  Mutex mutex_;
  std::map<std::int64_t, std::string> keys_ GUARDED_BY(mutex_);
};

class Predict final : public Command {
 public:
  explicit Predict(CLI::App& program)
      : Command(program, "predict", "predict with a trained model",
                "penstock predict --export cifar10-model --data new-images \\\n"
                "      --output predictions.csv") {
    CLI::Option* const folder =
        add("--export", folder_, "DIR", "model folder written by train --export-model");
    add("--model", model_, "NAME", "instead of --export: " + join(towers::model_names(), ", "))
        ->excludes(folder);
    add("--variables", variables_, "PATH",
        "with --model: an exported file, a checkpoint, or a folder of checkpoints (the newest is "
        "used)")
        ->excludes(folder);
    input_.add_to(*app(), DataUse::predict);
    add("--output", output_, "FILE",
        "where to write predictions, in the order of the data: f32 scores [rows,n] for .npy; CSV "
        "for .csv or no suffix (default -: to stdout)");
    add("--batch", batch_, "ROWS", "rows computed at a time (default 64)")->check(above_zero());
    add("--threads", threads_, "N", "compute threads (default: all)")->check(CLI::Range(1, 4096));
    app()->add_flag("--quiet", quiet_, "print errors only");
  }

  int run() override {
    if (folder_.empty() && (model_.empty() || variables_.empty()))
      throw UsageError("a trained model is needed: --export, or --model and --variables");
    if (!input_.has_data()) throw UsageError("there are no data to predict for", "--data");
    check_distinct({{"--output", output_}, {"--quarantine", input_.quarantine()}});
    const std::string suffix = std::filesystem::path(output_).extension();
    if (!suffix.empty() && suffix != ".npy" && suffix != ".csv")
      throw UsageError("predictions are written as .csv or .npy, not as " + suffix, "--output");
    check_output(output_);
    ModelFolder about;
    if (!folder_.empty()) {
      try {
        about = read_model_folder(folder_);
      } catch (const UsageError& error) {
        throw error.at("--export");
      }
      input_.use(about, folder_);
    } else {
      about.model = model_;
    }
    const towers::ModelKind& kind = input_.kind(about.model);
    RunOptions options;
    input_.apply_to(options);
    const Dataset data = input_.data(kind).enumerate(0, towers::kRow);
    Keys keys;
    const bool has_keys = is_text(data.spec(), "key");
    const Dataset rows = towers::model_input(kind, has_keys ? noted(data, keys) : data, false);
    towers::Predictor predictor(kind.make, folder_.empty() ? variables_ : variables_in(folder_),
                                threads_);
    std::unique_ptr<PredictionFile> file;
    std::uint64_t count = 0;
    for (const Element& batch : towers::batch_rows(rows, batch_).iterate(options)) {
      const towers::Array& scores = predictor.scores(batch);
      if (!file)
        file = open(kind, input_.classes(predictor.stored().classes), scores.dim(1), has_keys);
      const std::span<const std::int64_t> places = batch[towers::kRow].values<std::int64_t>();
      const auto width = static_cast<std::size_t>(scores.dim(1));
      for (std::size_t row = 0; row < places.size(); ++row)
        file->add(places[row], has_keys ? keys.take(places[row]) : std::string(),
                  scores.values().subspan(row * width, width));
      count += places.size();
    }
    if (!file) throw Error(ErrorCode::invalid_argument, "there are no rows to predict for");
    file->close();
    if (!quiet_ && output_ != "-") std::printf("%s\n", plural(count, "row", "rows").c_str());
    return kOk;
  }

 private:
  template <typename T>
  CLI::Option* add(const char* flag, T& value, const char* type, const std::string& help) {
    return app()->add_option(flag, value, help)->type_name(type);
  }

  static bool is_text(const Spec& spec, const char* component) {
    const int at = spec.find(component);
    return at >= 0 && spec[static_cast<std::size_t>(at)].dtype == DType::bytes &&
           spec[static_cast<std::size_t>(at)].shape == Shape{};
  }

  /// Returns the same elements, and records the key of each element that passes.
  static Dataset noted(const Dataset& data, Keys& keys) {
    return data.map(
        [&keys](Element in) {
          keys.put(in[towers::kRow].item<std::int64_t>(), std::string(in["key"].bytes_at()));
          return in;
        },
        {.name = "note_key"});
  }

  std::unique_ptr<PredictionFile> open(const towers::ModelKind& kind,
                                       const std::vector<std::string>& classes, std::int64_t width,
                                       bool keys) const {
    PredictionColumns columns{
        .scores = kind.outputs, .classes = kind.outputs.empty(), .keys = keys};
    for (auto c = static_cast<std::int64_t>(columns.scores.size()); c < width; ++c)
      columns.scores.push_back(c < static_cast<std::int64_t>(classes.size())
                                   ? classes[static_cast<std::size_t>(c)]
                                   : std::to_string(c));
    return open_predictions(output_, columns);
  }

  TrainInputFlags input_;
  std::string folder_, model_, variables_;
  std::string output_ = "-";
  std::int64_t batch_ = 64;
  int threads_ = 0;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_predict(CLI::App& program) {
  return std::make_unique<Predict>(program);
}

}  // namespace penstock::tool
