// The results of evaluations, in forms for people and for programs.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <penstock/towers/evaluation.h>

namespace penstock::tool {

/// Returns text such as "test loss 0.1, test accuracy 98.20 %, AUC 0.9930, precision 0.9810, recall
/// 0.9799 of 1,000".
std::string test_text(const towers::Evaluation& evaluation);
/// Returns the fields of `evaluation` in docs/report.schema.json, followed by a line break.
std::string evaluation_json(const towers::Evaluation& evaluation);
/// Returns the number, or null if there is none.
nlohmann::ordered_json json_of(const std::optional<double>& figure);

}  // namespace penstock::tool
