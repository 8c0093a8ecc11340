// The figures that each process of a training job reports, as far as this process knows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/towers/trainer.h>

#include "cluster/job.h"
#include "report/ranks.h"

namespace penstock::tool {

/// Sends this process's figures to rank 0 now and then; on rank 0, receives those of the others.
/// Only one thread at a time may call `on_step` and `look`.
class RankWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Both arguments must outlive this object. `job`: null if the process is alone.
  RankWatch(towers::Trainer& trainer, cluster::Job* job) : trainer_(trainer), job_(job) {}

  void on_step(const towers::StepReport& report, Time now);
  /// Sends and publishes the current figures. Returns them: on rank 0 those of all ranks that have
  /// sent any, elsewhere those of this rank.
  const std::vector<RankFigures>& look(const FeedStats& feed, Time now);
  /// Returns the figures of all ranks at the end of training, on every rank. All ranks must call
  /// it.
  std::vector<RankFigures> gather(const FeedStats& feed, Time now);
  /// Returns a trace of all ranks on rank 0's clock, on every rank. All ranks must call it.
  std::string gather_trace();
  int ranks() const noexcept { return job_ == nullptr ? 1 : job_->size(); }

 private:
  RankFigures own(const FeedStats& feed, Time now) const;

  towers::Trainer& trainer_;
  cluster::Job* const job_;
  std::uint64_t steps_ = 0;
  std::uint64_t rows_ = 0;
  double loss_ = 0;
  Time began_{};
  std::vector<RankFigures> known_;
};

}  // namespace penstock::tool
