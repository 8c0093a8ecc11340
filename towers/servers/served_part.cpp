#include "towers/servers/served_part.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <penstock/error.h>
#include <penstock/log.h>

#include "towers/checkpoint/run_settings.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::chrono::milliseconds kAskEvery{1000};

}  // namespace

std::string ServedPart::start(const TrainOptions& options, std::uint64_t planned_steps,
                              std::uint64_t batches, const std::optional<std::string>& kept) {
  ServedStrategy::Start start;
  start.facts = setting_of(options, planned_steps);
  start.facts.insert(job_.facts.begin(), job_.facts.end());
  start.max_steps = options.max_steps;
  start.planned_steps = planned_steps;
  start.batches = batches;
  start.all_needed = options.deterministic;
  max_steps_ = options.max_steps;
  batches_ = batches;
  deterministic_ = options.deterministic;
  saves_ = is_chief() && !options.checkpoint_folder.empty() && !deterministic_;
  if (kept) start.position = ServedPosition::decode(*kept);
  return strategy_.start(start);
}

void ServedPart::train(StopGate& gate, Feed& feed, int tower, int number, std::uint64_t until,
                       const std::atomic<bool>& stopped,
                       const std::function<void(StagedBatch&, std::uint64_t step)>& make) {
  const auto may_stop = [&] {
    const std::uint64_t step = deterministic_ ? strategy_.drawn(tower) : strategy_.step();
    return stopped || step >= until || strategy_.finished() || (tower == 0 && others_left());
  };
  while (gate.pass(tower, may_stop())) {
    std::optional<StagedBatch> batch = feed.next(number);
    if (!batch) return;
    // The batch was pushed before this process came, or comes after the last update.
    if (!strategy_.draw(tower) || !strategy_.ready(tower)) {
      batch->release();
      continue;
    }
    make(*batch, strategy_.local_step(tower));
  }
}

void ServedPart::throw_first_loss(const Error& error) const {
  const auto is_loss = [](const Error& one) {
    return one.code() == ErrorCode::unavailable || one.code() == ErrorCode::cancelled;
  };
  const Status first = strategy_.first_failure();
  if (is_loss(error) && !first.ok() && is_loss(first.error())) throw Error(first.error());
}

bool ServedPart::others_left() {
  if (!saves_) return false;
  if (const auto now = Clock::now(); now - asked_ >= kAskEvery) {
    asked_ = now;
    left_ = strategy_.figures().left;
  }
  return left_ > left_kept_;
}

std::string ServedPart::fetch() {
  left_kept_ = left_;  // processes that leave later may not be in it
  const ServedPosition position = strategy_.keep();
  pushes_ = position.heads.front().pushes;
  return position.encode();
}

void ServedPart::wait_for_others(const std::function<bool()>& stopped,
                                 const std::function<void()>& look) {
  // A stopped chief ends the run. If it left instead, its towers' tokens would let others continue.
  if (is_chief() && stopped()) {
    last_ = strategy_.figures();
    return;
  }
  strategy_.leave_run();
  if (!is_chief()) return;
  const auto began = Clock::now();
  bool told = false;
  for (;;) {
    const std::uint64_t before = last_.rows;
    last_ = strategy_.figures();
    if (last_.rows > before) trained_by_others_ = Clock::now() - began;
    left_ = last_.left;
    if (last_.others_ended) {
      // If all updates are made, lost processes have nothing to come back for.
      if (all_made(last_) || last_.lost_ms >= static_cast<std::uint64_t>(job_.lost_wait.count()))
        return;
      if (!std::exchange(told, true)) tell_of_waiting();
    }
    if (stopped()) return;
    look();
    std::this_thread::sleep_for(kLookEvery);
  }
}

void ServedPart::tell_of_waiting() const {
  std::string whom;
  for (const int process : last_.lost)
    whom += (whom.empty() ? "process " : ", ") + std::to_string(process);
  const auto left = (static_cast<std::uint64_t>(job_.lost_wait.count()) - last_.lost_ms) / 1000;
  log(LogLevel::warning, "waiting " + std::to_string(left) + " s at most for " + whom +
                             " to be started again: what it was to train on is left");
}

void ServedPart::report(TrainResult& result) const {
  result.strategy = strategy_.stats();
  if (!is_chief()) return;
  result.elements = last_.rows;
  result.train_s += std::chrono::duration<double>(trained_by_others_).count();
  result.strategy.dropped += last_.pending;  // part of an update is no update
  result.losses_of_processes = last_.losses;
  result.lost_processes = last_.lost;
  if (batches_ == 0 || all_made(last_)) return;
  const std::size_t each = pushes_.size() / static_cast<std::size_t>(job_.processes);
  for (const int process : last_.lost)
    for (std::size_t r = 0; r < each; ++r)
      result.untrained_batches +=
          batches_ - std::min(batches_, pushes_[static_cast<std::size_t>(process) * each + r]);
}

}  // namespace penstock::towers
