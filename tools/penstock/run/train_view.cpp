#include "tools/penstock/run/train_view.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "pipelines/numbers.h"
#include "report/observed.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/evaluation_text.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string decimal(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::string line_of(const RankFigures& rank) {
  return "rank " + std::to_string(rank.rank) + "  step " + grouped(rank.steps) + "  loss " +
         decimal(rank.loss, 4) + "  " + human_count(rank.images_per_s) + " images/s, " +
         human_share(rank.stall_share()) + " stalled, " + human_share(rank.exposed_share()) +
         " of the time only exchanging";
}

}  // namespace

TrainView::TrainView(std::FILE* stream, const towers::Trainer& trainer, RankWatch& ranks,
                     EventFile* events, towers::BestExport* best)
    : stream_(stream),
      trainer_(trainer),
      planned_(trainer.planned_steps()),
      ranks_(ranks),
      events_(events),
      best_(best),
      redraws_(stream != nullptr && traits_of(stream).interactive) {}

TrainView::~TrainView() {
  clear_line();
}

void TrainView::clear_line() {
  if (drawn_ > 0) std::fputs("\r\x1b[K", stream_);
  for (; drawn_ > 1; --drawn_) std::fputs("\x1b[A\x1b[K", stream_);
  drawn_ = 0;
}

void TrainView::on_step(const towers::StepReport& report) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = elements_ == 0;
  if (first) began_ = shown_ = now;
  ranks_.on_step(report, now);
  elements_ += static_cast<std::uint64_t>(report.rows);
  loss_ = first ? report.loss : 0.95 * loss_ + 0.05 * report.loss;
  accuracy_ = first ? report.accuracy : 0.95 * accuracy_ + 0.05 * report.accuracy;
  if (events_ != nullptr) {
    const double seconds = std::chrono::duration<double>(now - began_).count();
    events_->add(
        report.step + 1, unix_time(),
        {{"loss", report.loss},
         {"accuracy", report.accuracy},
         {"train/loss", report.loss},
         {"train/accuracy", report.accuracy},
         {"train/learning_rate", report.rate},
         {"train/images", static_cast<double>(elements_)},
         {"train/images_per_second", first ? 0 : static_cast<double>(elements_) / seconds}});
  }
  if (!first) look_at_stalls(report.step + 1, now);
  if (stream_ != nullptr && !first) show(report, now);
}

void TrainView::before_checkpoint(std::uint64_t /*step*/) {
  if (events_ != nullptr) events_->flush();
}

void TrainView::end(const towers::TrainResult& result) {
  if (elements_ > 0 && stalls_at_ != result.steps) add_stalls(result.steps, result.feed);
}

// Only now and then, because it reads the statistics of every tower.
void TrainView::look_at_stalls(std::uint64_t step, std::chrono::steady_clock::time_point now) {
  if (now - looked_ < std::chrono::seconds(1)) return;
  looked_ = now;
  const FeedStats feed = trainer_.feed_stats();
  stalled_ = 0;
  for (const TowerStats& tower : feed.towers) stalled_ = std::max(stalled_, tower.stall_share());
  add_stalls(step, feed);
  known_ = ranks_.look(feed, now);
  add_ranks(step, known_);
}

void TrainView::add_ranks(std::uint64_t step, const std::vector<RankFigures>& ranks) {
  if (events_ == nullptr || ranks_.ranks() < 2) return;
  std::vector<std::pair<std::string, double>> figures;
  for (const RankFigures& rank : ranks) {
    const std::string name = "/rank" + std::to_string(rank.rank);
    figures.emplace_back("ranks/loss" + name, rank.loss);
    figures.emplace_back("ranks/images_per_second" + name, rank.images_per_s);
    figures.emplace_back("ranks/exposed_share" + name, rank.exposed_share());
    for (const RankFigures::Tower& tower : rank.towers)
      figures.emplace_back("ranks/stall_share" + name + "/tower" + std::to_string(tower.number),
                           tower.stall_share());
  }
  events_->add(step, unix_time(), figures);
}

std::vector<std::string> TrainView::rank_lines() const {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> lines;
  if (ranks_.ranks() < 2) return lines;
  for (const RankFigures& rank : known_) {
    if (lines.size() == kMost) {
      lines.push_back("… and " + std::to_string(known_.size() - kMost) + " more ranks");
      break;
    }
    lines.push_back(line_of(rank));
  }
  return lines;
}

void TrainView::add_stalls(std::uint64_t step, const FeedStats& feed) {
  if (events_ == nullptr) return;
  stalls_at_ = step;
  std::vector<std::pair<std::string, double>> shares;
  for (const TowerStats& tower : feed.towers)
    shares.emplace_back("train/stall_share/tower" + std::to_string(shares.size()),
                        tower.stall_share());
  events_->add(step, unix_time(), shares);
}

void TrainView::show(const towers::StepReport& report, std::chrono::steady_clock::time_point now) {
  if (now - shown_ < (redraws_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double rate = static_cast<double>(elements_) / seconds;
  std::string line = "step " + grouped(report.step + 1);
  if (planned_ > 0) line += "/" + grouped(planned_);
  line += "  epoch " + std::to_string(report.epoch + 1) + "  loss " + decimal(loss_, 4) +
          "  accuracy " + decimal(100 * accuracy_, 1) + " %  " + human_count(rate) + " images/s, " +
          human_share(stalled_) + " stalled";
  if (planned_ > report.step + 1)
    line += "  " +
            human_seconds(static_cast<double>(planned_ - report.step - 1) * seconds *
                          static_cast<double>(report.rows) / static_cast<double>(elements_)) +
            " left";
  std::vector<std::string> lines = rank_lines();
  lines.insert(lines.begin(), line);
  clear_line();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool last = i + 1 == lines.size();
    const std::string text =
        redraws_ ? fit(lines[i], static_cast<std::size_t>(traits_of(stream_).width - 1)) : lines[i];
    std::fputs((text + (redraws_ && last ? "" : "\n")).c_str(), stream_);
  }
  std::fflush(stream_);
  drawn_ = redraws_ ? lines.size() : 0;
}

void TrainView::on_evaluation(const towers::Evaluation& evaluation) {
  if (events_ != nullptr) {
    std::vector<std::pair<std::string, double>> figures;
    for (const auto& [name, figure] : towers::figures_of(evaluation))
      figures.emplace_back("test/" + name, figure);
    events_->add(evaluation.step, unix_time(), figures);
    events_->flush();
  }
  if (stream_ == nullptr) return;
  clear_line();
  std::fputs(("step " + grouped(evaluation.step) + "  " + test_text(evaluation) + "\n").c_str(),
             stream_);
  std::fflush(stream_);
}

void TrainView::on_evaluated(const towers::Evaluation& evaluation,
                             const towers::VariableStore& variables) {
  if (best_ != nullptr) best_->offer(evaluation, variables, trainer_.classes());
  on_evaluation(evaluation);
}

std::string train_text(const towers::TrainResult& result, const std::vector<RankFigures>& ranks) {
  std::string text = plural(result.steps - result.resumed_at, "update", "updates") + ", " +
                     plural(result.elements, "image", "images") + " in " +
                     human_seconds(result.train_s) + ": " +
                     human_count(result.elements_per_second()) + " images/s\n";
  if (result.early_stopped) text += "stopped early: evaluations did not improve\n";
  if (result.diverged_steps > 0)
    text += "diverged: the loss of " + plural(result.diverged_steps, "step", "steps") +
            " was not a number, or beyond 1e18\n";
  for (std::size_t t = 0; t < result.feed.towers.size(); ++t) {
    const TowerStats& tower = result.feed.towers[t];
    text += "tower " + std::to_string(t) + " on " + tower.device + ": " +
            plural(tower.steps, "step", "steps") + ", stalled " + human_share(tower.stall_share());
    for (const auto& [cause, seconds] : tower.causes)
      if (seconds > 0.01 * tower.wall_s) text += ", " + cause + " " + human_seconds(seconds);
    text += "\n";
  }
  for (const RankFigures& rank : ranks)
    if (ranks.size() > 1) text += line_of(rank) + "\n";
  if (result.strategy.applied > 0)
    text += "gradients: " + grouped(result.strategy.applied) + " applied, " +
            grouped(result.strategy.dropped) + " dropped as stale\n";
  if (!result.lost_processes.empty()) {
    text += "lost at the end: ";
    for (const int process : result.lost_processes)
      text += (text.ends_with(": ") ? "worker of rank " : ", ") + std::to_string(process);
    text += "; batches not trained on: " + grouped(result.untrained_batches) + "\n";
  }
  return text;
}

std::string train_json(const towers::TrainResult& result, const std::vector<RankFigures>& ranks) {
  Json json;
  json["steps"] = result.steps;
  json["resumed_at"] = result.resumed_at;
  json["early_stopped"] = result.early_stopped;
  json["diverged_steps"] = result.diverged_steps;
  json["images"] = result.elements;
  json["images_per_second"] = result.elements_per_second();
  json["train_seconds"] = result.train_s;
  const towers::Evaluation none;
  const towers::Evaluation& found = result.evaluation ? *result.evaluation : none;
  json["test_accuracy"] = result.evaluation ? Json(found.accuracy) : Json(nullptr);
  json["test_loss"] = result.evaluation ? Json(found.loss) : Json(nullptr);
  json["test_auc"] = json_of(found.auc);
  json["test_precision"] = json_of(found.precision);
  json["test_recall"] = json_of(found.recall);
  json["test_auc_micro"] = json_of(found.auc_micro);
  json["train_loss"] = result.losses;
  Json towers = Json::array();
  Json stalls = Json::array();
  for (const TowerStats& tower : result.feed.towers) {
    stalls.push_back(tower.stall_share());
    Json causes = Json::object();
    for (const auto& [cause, seconds] : tower.causes) causes[cause] = seconds;
    towers.push_back({{"device", tower.device},
                      {"steps", tower.steps},
                      {"images", tower.elements},
                      {"wall_s", tower.wall_s},
                      {"step_s", tower.step_s},
                      {"stall_s", tower.stall_s},
                      {"other_s", tower.other_s},
                      {"causes", causes}});
  }
  json["stall_share"] = stalls;
  json["towers"] = towers;
  json["ranks"] = Json::parse(ranks_json(ranks));
  // Towers that step together apply all gradients, and do not count them.
  const bool counted = result.strategy.applied + result.strategy.dropped > 0;
  json["gradients_applied"] = counted ? Json(result.strategy.applied) : Json(nullptr);
  json["gradients_dropped"] = counted ? Json(result.strategy.dropped) : Json(nullptr);
  json["staleness"] = counted ? Json(result.strategy.staleness) : Json(nullptr);
  json["lost_ranks"] = result.lost_processes;
  json["untrained_batches"] = result.untrained_batches;
  json["variables_digest"] = hex(result.digest);
  return json.dump(2) + "\n";
}

std::string train_html(const std::string& model, const towers::TrainResult& result,
                       const std::vector<RankFigures>& ranks) {
  Report report{observed(result.feed), {}};
  report.of_training = true;
  report.ending = result.stopped ? Ending::interrupted : Ending::finished;
  PageText page{"penstock train", model, {}, {}};
  std::istringstream text(train_text(result, ranks));
  for (std::string line; std::getline(text, line);) page.lines.push_back(line);
  if (result.evaluation) page.lines.push_back(test_text(*result.evaluation));
  page.curves.push_back({"Loss of each step", result.resumed_at + 1, result.losses});
  return report_html(report, page);
}

}  // namespace penstock::tool
