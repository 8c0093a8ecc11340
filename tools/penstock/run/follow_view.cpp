#include "tools/penstock/run/follow_view.h"

#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/log.h>

#include "pipelines/numbers.h"
#include "tools/penstock/run/evaluation_text.h"

namespace penstock::tool {

FollowView::FollowView(std::FILE* stream, const std::string& events) : stream_(stream) {
  if (!events.empty()) events_.emplace(events);
}

// The log has the results. A full disk costs a chart, but no evaluation.
void FollowView::on_log(const std::vector<towers::RecordedEvaluation>& all) {
  if (!events_) return;
  try {
    events_->write(all);
  } catch (const Error& error) {
    log(LogLevel::warning, std::string("TensorBoard's file is incomplete: ") + error.what());
  }
}

void FollowView::on_evaluation(const towers::RecordedEvaluation& one, bool is_best) {
  if (stream_ == nullptr) return;
  const towers::Evaluation& evaluation = one.evaluation;
  std::fprintf(stream_, "step %s  %s, in %s%s\n", grouped(evaluation.step).c_str(),
               test_text(evaluation).c_str(), human_seconds(one.seconds).c_str(),
               is_best ? "  (best so far)" : "");
  std::fflush(stream_);
}

std::string follow_json(const towers::FollowResult& result) {
  nlohmann::ordered_json json;
  json["evaluations"] = nlohmann::ordered_json::array();
  for (const towers::RecordedEvaluation& one : result.evaluations) {
    nlohmann::ordered_json line{{"step", one.evaluation.step}, {"epoch", one.epoch}};
    for (const auto& [name, figure] : towers::figures_of(one.evaluation)) line[name] = figure;
    line["rows"] = one.evaluation.rows;
    line["began"] = one.began;
    line["seconds"] = one.seconds;
    json["evaluations"].push_back(std::move(line));
  }
  json["made"] = result.made;
  json["finished"] = !result.stopped;
  return json.dump(2) + "\n";
}

}  // namespace penstock::tool
