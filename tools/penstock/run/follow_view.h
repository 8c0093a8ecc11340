// The output of an evaluator.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "tools/penstock/run/evaluation_events.h"
#include "towers/evaluate/follower.h"

namespace penstock::tool {

/// Prints a line for each evaluation. Used by the follower.
class FollowView final : public towers::FollowObserver {
 public:
  /// `stream`: null prints nothing. `events`: the folder for TensorBoard; empty: none.
  FollowView(std::FILE* stream, const std::string& events);
  void on_log(const std::vector<towers::RecordedEvaluation>& all) override;
  void on_evaluation(const towers::RecordedEvaluation& one, bool is_best) override;

 private:
  std::FILE* const stream_;
  std::optional<EvaluationEvents> events_;
};

/// Returns the fields that docs/report.schema.json lists.
std::string follow_json(const towers::FollowResult& result);

}  // namespace penstock::tool
