#include "towers/evaluate/evaluation_log.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include <penstock/durable_file.h>
#include <penstock/error.h>

namespace penstock::towers {
namespace {

std::string line_of(const RecordedEvaluation& one) {
  // Digests are text, because JSON readers may keep numbers as doubles.
  nlohmann::ordered_json json{{"step", one.evaluation.step}, {"epoch", one.epoch}};
  for (const auto& [name, figure] : figures_of(one.evaluation)) json[name] = figure;
  json["rows"] = one.evaluation.rows;
  json["began"] = one.began;
  json["seconds"] = one.seconds;
  json["variables"] = std::to_string(one.digest);
  return json.dump() + "\n";
}

/// JSON has no NaN; such a loss is stored as null.
double number_or_nan(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

std::optional<double> number_if_any(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  return number_or_nan(*found);
}

RecordedEvaluation parse_line(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line);
  RecordedEvaluation one;
  one.evaluation = {json.at("step").get<std::uint64_t>(), number_or_nan(json.at("loss")),
                    number_or_nan(json.at("accuracy")), json.at("rows").get<std::int64_t>()};
  one.evaluation.auc = number_if_any(json, "auc");
  one.evaluation.precision = number_if_any(json, "precision");
  one.evaluation.recall = number_if_any(json, "recall");
  one.evaluation.auc_micro = number_if_any(json, "auc_micro");
  one.epoch = json.at("epoch").get<std::uint64_t>();
  one.digest = std::stoull(json.at("variables").get<std::string>());
  one.began = json.at("began").get<double>();
  one.seconds = json.at("seconds").get<double>();
  return one;
}

UniqueFd locked_by_me(const std::string& folder) {
  const std::string path = folder + "/evaluator.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) throw error_from_errno(errno, "write", path);
  // If files cannot be locked, users must not start two evaluators.
  if (try_lock(fd.get(), path) == Locked::by_another)
    throw Error(ErrorCode::unavailable, lock_holder(fd.get()) +
                                            " already evaluates the checkpoints in " + folder +
                                            ": one evaluator is enough");
  return fd;
}

}  // namespace

EvaluationLog::EvaluationLog(const std::string& folder) : path_(folder + "/evaluations.jsonl") {
  refuse_scheme(folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::unavailable, "can't make folder " + folder + ": " + error.message());
  lock_ = locked_by_me(folder);
  std::ifstream in(path_, std::ios::binary);
  if (!in) return;
  text_.assign(std::istreambuf_iterator<char>(in), {});
  std::istringstream lines(text_);
  for (std::string line; std::getline(lines, line);) {
    try {
      all_.push_back(parse_line(line));
    } catch (const std::exception& problem) {
      throw Error(ErrorCode::data_loss,
                  "line " + std::to_string(all_.size() + 1) + " is not an evaluation: " +
                      problem.what() + "; remove the file to evaluate the kept checkpoints again",
                  {.shard = path_});
    }
  }
}

bool EvaluationLog::has(std::uint64_t step, std::uint64_t digest) const {
  return std::ranges::any_of(all_, [&](const RecordedEvaluation& one) {
    return one.evaluation.step == step && one.digest == digest;
  });
}

void EvaluationLog::add(const RecordedEvaluation& one) {
  std::string text = text_ + line_of(one);
  write_durably(path_, text);
  text_ = std::move(text);
  all_.push_back(one);
}

}  // namespace penstock::towers
