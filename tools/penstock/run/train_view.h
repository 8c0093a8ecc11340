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
  /// `planned`: updates there will be; 0: unknown. `stream` null: nothing is shown. `events` null:
  /// nothing is written for TensorBoard; else it outlives the view.
  TrainView(std::FILE* stream, std::uint64_t planned, EventFile* events = nullptr);
  ~TrainView() override;
  void on_step(const towers::StepReport& report) override;
  void on_evaluation(const towers::Evaluation& evaluation) override;
  /// Writes each tower's share of stalls for TensorBoard.
  void end(const towers::TrainResult& result);

 private:
  void clear_line();
  void show(const towers::StepReport& report, std::chrono::steady_clock::time_point now);

  std::FILE* const stream_;
  const std::uint64_t planned_;
  EventFile* const events_;
  const bool redraws_;
  bool drawn_ = false;
  std::uint64_t elements_ = 0;
  double loss_ = 0, accuracy_ = 0;  // averages that forget
  std::chrono::steady_clock::time_point began_{}, shown_{};
};

/// The summary that is printed when training has ended.
std::string train_text(const towers::TrainResult& result);
/// The fields that docs/training.md ("The JSON") lists.
std::string train_json(const towers::TrainResult& result);

}  // namespace penstock::tool
