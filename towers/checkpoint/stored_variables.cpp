#include "towers/checkpoint/stored_variables.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/resuming.h"
#include "towers/checkpoint/safetensors.h"
#include "towers/classes.h"
#include "towers/evaluate/evaluator.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {
namespace {

/// Returns the metadata of a safetensors file.
std::map<std::string, std::string> metadata_of(const std::string& path) {
  std::string text;
  if (is_remote(path)) {
    text = read_stored(path);
  } else {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw Error(ErrorCode::not_found, "can't open the file", {.shard = path});
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  try {
    return SafeTensors(std::move(text)).metadata();
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

StoredVariables restored(const StoredRun& run, VariableStore& store) {
  run.restore_variables(store);
  return {run.step(), run.classes()};
}

}  // namespace

StoredVariables load_stored(VariableStore& store, const std::string& path) {
  std::error_code ignored;
  const bool in_store = is_remote(path) && !path.ends_with(".safetensors");
  if (in_store || std::filesystem::is_directory(path, ignored)) {
    const std::optional<StoredRun> newest = Checkpoints(path, true).newest();
    if (!newest)
      throw Error(ErrorCode::not_found, "there is no complete checkpoint in this folder",
                  {.shard = path});
    return restored(*newest, store);
  }
  const std::map<std::string, std::string> metadata = metadata_of(path);
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (text("format").starts_with("penstock training "))
    return restored(StoredRun::read(path), store);
  import_variables(store, path);
  StoredVariables stored;
  const std::string step = text("step");
  std::uint64_t number = 0;
  if (std::from_chars(step.data(), step.data() + step.size(), number).ec == std::errc())
    stored.step = number;
  if (metadata.contains(kClasses)) stored.classes = classes_in(text(kClasses));
  return stored;
}

Evaluation evaluate_stored(const ModelMaker& make, const Dataset& test, TrainOptions options,
                           const std::string& path) {
  options.strategy = {};
  options.virtual_towers = 0;
  options.validation_device = nullptr;
  check_options(options);
  options = completed(std::move(options));
  TowerSet towers(make, options, {});
  const StoredVariables stored = load_stored(towers.store(), path);
  for (std::size_t v = 0; v < towers.store().of(0).size(); ++v) towers.store().share(v);
  const Dataset rows = labelled(test, stored.classes, options.class_weights, kEvaluationData);
  Evaluation found = Evaluator(towers, rows, options).evaluate(stored.step.value_or(0));
  for (std::size_t c = 0; c < std::min(found.classes.size(), stored.classes.size()); ++c)
    found.classes[c].name = stored.classes[c];
  return found;
}

}  // namespace penstock::towers
