// What `penstock train` shows, and writes at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tools/penstock/run/event_file.h"
#include "towers/trainer.h"

namespace penstock::tool {

/// Progress: a line that is redrawn on a terminal, else one now and then. Used by the trainer.
class TrainView final : public towers::TrainObserver {
 public:
  /// Outlived by `trainer` and by `events`. `stream` null: nothing is shown. `events` null: nothing
  /// is written for TensorBoard.
  TrainView(std::FILE* stream, const towers::Trainer& trainer, EventFile* events = nullptr);
  ~TrainView() override;
  void on_step(const towers::StepReport& report) override;
  void on_evaluation(const towers::Evaluation& evaluation) override;
  /// Writes each tower's share of stalls for TensorBoard.
  void end(const towers::TrainResult& result);

 private:
  void clear_line();
  void look_at_stalls(std::uint64_t step, std::chrono::steady_clock::time_point now);
  void add_stalls(std::uint64_t step, const FeedStats& feed);
  void show(const towers::StepReport& report, std::chrono::steady_clock::time_point now);

  std::FILE* const stream_;
  const towers::Trainer& trainer_;
  const std::uint64_t planned_;
  EventFile* const events_;
  const bool redraws_;
  bool drawn_ = false;
  std::uint64_t elements_ = 0;
  double loss_ = 0, accuracy_ = 0;  // averages that forget
  double stalled_ = 0;              // the share of the tower that waited most
  std::chrono::steady_clock::time_point began_{}, shown_{}, looked_{};
};

/// The summary that is printed when training has ended.
std::string train_text(const towers::TrainResult& result);
/// The fields that docs/training.md ("The JSON") lists.
std::string train_json(const towers::TrainResult& result);

}  // namespace penstock::tool
