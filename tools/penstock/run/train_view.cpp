#include "tools/penstock/run/train_view.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/penstock/support/numbers.h"
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

}  // namespace

TrainView::TrainView(std::FILE* stream, const towers::Trainer& trainer, EventFile* events)
    : stream_(stream),
      trainer_(trainer),
      planned_(trainer.planned_steps()),
      events_(events),
      redraws_(stream != nullptr && traits_of(stream).interactive) {}

TrainView::~TrainView() {
  clear_line();
}

void TrainView::clear_line() {
  if (drawn_) std::fputs("\r\x1b[K", stream_);
  drawn_ = false;
}

void TrainView::on_step(const towers::StepReport& report) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = elements_ == 0;
  if (first) began_ = shown_ = now;
  elements_ += static_cast<std::uint64_t>(report.rows);
  loss_ = first ? report.loss : 0.95 * loss_ + 0.05 * report.loss;
  accuracy_ = first ? report.accuracy : 0.95 * accuracy_ + 0.05 * report.accuracy;
  if (events_ != nullptr) {
    const double seconds = std::chrono::duration<double>(now - began_).count();
    events_->add(
        report.step, unix_time(),
        {{"train/loss", report.loss},
         {"train/accuracy", report.accuracy},
         {"train/learning_rate", report.rate},
         {"train/images", static_cast<double>(elements_)},
         {"train/images_per_second", first ? 0 : static_cast<double>(elements_) / seconds}});
  }
  if (!first) look_at_stalls(report.step, now);
  if (stream_ != nullptr && !first) show(report, now);
}

void TrainView::end(const towers::TrainResult& result) {
  add_stalls(result.steps, result.feed);
}

// Now and then: every tower's books are looked at for it.
void TrainView::look_at_stalls(std::uint64_t step, std::chrono::steady_clock::time_point now) {
  if (now - looked_ < std::chrono::seconds(1)) return;
  looked_ = now;
  const FeedStats feed = trainer_.feed_stats();
  stalled_ = 0;
  for (const TowerStats& tower : feed.towers) stalled_ = std::max(stalled_, tower.stall_share());
  add_stalls(step, feed);
}

void TrainView::add_stalls(std::uint64_t step, const FeedStats& feed) {
  if (events_ == nullptr) return;
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
  clear_line();
  std::fputs(
      (redraws_ ? fit(line, static_cast<std::size_t>(traits_of(stream_).width - 1)) : line + "\n")
          .c_str(),
      stream_);
  std::fflush(stream_);
  drawn_ = redraws_;
}

void TrainView::on_evaluation(const towers::Evaluation& evaluation) {
  if (events_ != nullptr) {
    events_->add(evaluation.step, unix_time(),
                 {{"test/loss", evaluation.loss}, {"test/accuracy", evaluation.accuracy}});
    events_->flush();
  }
  if (stream_ == nullptr) return;
  clear_line();
  std::fputs(("step " + grouped(evaluation.step) + "  test loss " + decimal(evaluation.loss, 4) +
              "  test accuracy " + decimal(100 * evaluation.accuracy, 2) + " % of " +
              grouped(static_cast<std::uint64_t>(evaluation.rows)) + "\n")
                 .c_str(),
             stream_);
  std::fflush(stream_);
}

std::string train_text(const towers::TrainResult& result) {
  std::string text = grouped(result.steps - result.resumed_at) + " updates, " +
                     grouped(result.elements) + " images in " + human_seconds(result.train_s) +
                     ": " + human_count(result.elements_per_second()) + " images/s\n";
  for (std::size_t t = 0; t < result.feed.towers.size(); ++t) {
    const TowerStats& tower = result.feed.towers[t];
    text += "tower " + std::to_string(t) + " on " + tower.device + ": " + grouped(tower.steps) +
            " steps, stalled " + human_share(tower.stall_share());
    for (const auto& [cause, seconds] : tower.causes)
      if (seconds > 0.01 * tower.wall_s) text += ", " + cause + " " + human_seconds(seconds);
    text += "\n";
  }
  if (result.strategy.applied > 0)
    text += "gradients: " + grouped(result.strategy.applied) + " applied, " +
            grouped(result.strategy.dropped) + " dropped as stale\n";
  return text;
}

std::string train_json(const towers::TrainResult& result) {
  Json json;
  json["steps"] = result.steps;
  json["resumed_at"] = result.resumed_at;
  json["images"] = result.elements;
  json["images_per_second"] = result.elements_per_second();
  json["train_seconds"] = result.train_s;
  json["test_accuracy"] = result.evaluation ? Json(result.evaluation->accuracy) : Json(nullptr);
  json["test_loss"] = result.evaluation ? Json(result.evaluation->loss) : Json(nullptr);
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
  // Towers that step together apply them all, and count none.
  const bool counted = result.strategy.applied + result.strategy.dropped > 0;
  json["gradients_applied"] = counted ? Json(result.strategy.applied) : Json(nullptr);
  json["gradients_dropped"] = counted ? Json(result.strategy.dropped) : Json(nullptr);
  json["staleness"] = counted ? Json(result.strategy.staleness) : Json(nullptr);
  json["variables_digest"] = hex(result.digest);
  return json.dump(2) + "\n";
}

}  // namespace penstock::tool
