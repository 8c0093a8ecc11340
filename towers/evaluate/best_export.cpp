#include "towers/evaluate/best_export.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include <penstock/durable_file.h>
#include <penstock/error.h>

#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/safetensors.h"
#include "towers/numbers.h"

namespace penstock::towers {
namespace {

constexpr const char* kBestBy = "best by";

std::optional<double> exact_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns nothing if there is no file.
std::optional<double> figure_in(const std::string& path, Measure by) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string measure(name_of(by));
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::invalid_argument,
                 why + ": remove it, or name another file for the best variables", {.shard = path});
  };
  try {
    const SafeTensors file(std::string(std::istreambuf_iterator<char>(in), {}));
    const auto said = file.metadata().find(kBestBy);
    const auto value = file.metadata().find(measure);
    const std::optional<double> figure =
        value == file.metadata().end() ? std::nullopt : exact_number(value->second);
    if (said == file.metadata().end() || !figure)
      throw refuse("it does not say how good its variables are");
    if (said->second != measure)
      throw refuse("it is the best by " + said->second + ", not by " + measure);
    return figure;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss) throw;
    throw refuse("it is not a file of variables, " + error.cause());
  }
}

}  // namespace

BestExport::BestExport(std::string path, Measure by, bool resume)
    : path_(std::move(path)), by_(by) {
  check_writable(path_);
  if (resume) best_ = figure_in(path_, by_);
}

bool BestExport::offer(const Evaluation& evaluation, const VariableStore& variables,
                       const std::vector<std::string>& classes) {
  const double figure = figure_of(evaluation, by_);
  if (!std::isfinite(figure)) return false;
  if (best_ && (by_ == Measure::loss ? figure >= *best_ : figure <= *best_)) return false;
  std::map<std::string, std::string> said{{kBestBy, std::string(name_of(by_))},
                                          {"step", std::to_string(evaluation.step)}};
  for (const auto& [name, value] : figures_of(evaluation)) said[name] = exact_text(value);
  export_variables(variables, path_, classes, std::move(said));
  best_ = figure;
  return true;
}

}  // namespace penstock::towers
