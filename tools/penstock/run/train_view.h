// The output of `penstock train`.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <penstock/towers/trainer.h>

#include "tools/penstock/run/event_file.h"
#include "tools/penstock/run/rank_watch.h"
#include "towers/evaluate/best_export.h"

namespace penstock::tool {

/// Shows progress: a line that is redrawn on a terminal, elsewhere one now and then. Used by the
/// trainer.
class TrainView final : public towers::TrainObserver {
 public:
  /// The arguments must outlive this object. `stream`: null shows nothing. `events`: null writes
  /// nothing for TensorBoard. `best`: null keeps no variables.
  TrainView(std::FILE* stream, const towers::Trainer& trainer, RankWatch& ranks,
            EventFile* events = nullptr, towers::BestExport* best = nullptr);
  ~TrainView() override;
  void on_step(const towers::StepReport& report) override;
  void before_checkpoint(std::uint64_t step) override;
  void on_evaluation(const towers::Evaluation& evaluation) override;
  void on_evaluated(const towers::Evaluation& evaluation,
                    const towers::VariableStore& variables) override;
  /// Writes the stall share of each tower for TensorBoard.
  void end(const towers::TrainResult& result);

 private:
  void clear_line();
  void look_at_stalls(std::uint64_t step, std::chrono::steady_clock::time_point now);
  void add_stalls(std::uint64_t step, const FeedStats& feed);
  void add_ranks(std::uint64_t step, const std::vector<RankFigures>& ranks);
  /// Returns a line for each rank if there are several.
  std::vector<std::string> rank_lines() const;
  void show(const towers::StepReport& report, std::chrono::steady_clock::time_point now);

  std::FILE* const stream_;
  const towers::Trainer& trainer_;
  const std::uint64_t planned_;
  RankWatch& ranks_;
  EventFile* const events_;
  towers::BestExport* const best_;
  const bool redraws_;
  std::size_t drawn_ = 0;  // lines
  std::vector<RankFigures> known_;
  std::uint64_t elements_ = 0;
  double loss_ = 0, accuracy_ = 0;  // decaying averages
  double stalled_ = 0;              // the stall share of the tower that waited most
  std::uint64_t stalls_at_ = 0;     // the step of the last stall shares in `events_`
  std::chrono::steady_clock::time_point began_{}, shown_{}, looked_{};
};

/// Returns the summary that is printed at the end of training.
std::string train_text(const towers::TrainResult& result, const std::vector<RankFigures>& ranks);
/// Returns the fields of `training` in docs/report.schema.json.
std::string train_json(const towers::TrainResult& result, const std::vector<RankFigures>& ranks);

/// Returns a page of HTML with the loss of each step, the summary, and the report on the input.
std::string train_html(const std::string& model, const towers::TrainResult& result,
                       const std::vector<RankFigures>& ranks);

}  // namespace penstock::tool
