#include "towers/servers/served_loop.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <penstock/error.h>
#include <penstock/log.h>

#include "towers/checkpoint/run_settings.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::chrono::milliseconds kAskEvery{1000};

}  // namespace

ServedLoop::ServedLoop(const Parts& parts, std::unique_ptr<ServedStrategy> strategy)
    : TrainLoop(parts, std::move(strategy)),
      strategy_(static_cast<ServedStrategy&>(TrainLoop::strategy())),
      job_(*parts.options.strategy.served),
      deterministic_(parts.options.deterministic),
      saves_(is_chief() && !parts.options.checkpoint_folder.empty() && !deterministic_) {}

std::string ServedLoop::start(const std::optional<std::string>& found, std::uint64_t planned_steps,
                              std::uint64_t batches) {
  ServedStrategy::Start start;
  start.facts = setting_of(parts_.options, planned_steps);
  start.facts.insert(job_.facts.begin(), job_.facts.end());
  start.max_steps = parts_.options.max_steps;
  start.planned_steps = planned_steps;
  start.batches = batches_ = batches;
  start.all_needed = deterministic_;
  if (found) start.position = ServedPosition::decode(*found);
  return strategy_.start(start);
}

void ServedLoop::begin(Feed& feed, std::uint64_t /*epoch*/, std::uint64_t until) {
  feed_ = &feed;
  until_ = until;
  gate_.emplace(parts_.towers.size());
}

void ServedLoop::train(int tower, const MakeStep& make) {
  const auto may_stop = [&] {
    const std::uint64_t step = deterministic_ ? strategy_.drawn(tower) : strategy_.step();
    return parts_.stopped || step >= until_ || strategy_.finished() ||
           (tower == 0 && wants_checkpoint());
  };
  while (gate_->pass(tower, may_stop())) {
    std::optional<StagedBatch> batch = feed_->next(number(tower));
    if (!batch) return;
    // The batch was pushed before this process came, or comes after the last update.
    if (!strategy_.draw(tower) || !strategy_.ready(tower)) {
      batch->release();
      continue;
    }
    make(*batch, strategy_.local_step(tower));
  }
}

void ServedLoop::throw_first_loss(const Error& error) const {
  const auto is_loss = [](const Error& one) {
    return one.code() == ErrorCode::unavailable || one.code() == ErrorCode::cancelled;
  };
  const Status first = strategy_.first_failure();
  if (is_loss(error) && !first.ok() && is_loss(first.error())) throw Error(first.error());
}

bool ServedLoop::wants_checkpoint() {
  if (!saves_) return false;
  if (const auto now = Clock::now(); now - asked_ >= kAskEvery) {
    asked_ = now;
    left_ = strategy_.figures().left;
  }
  return left_ > left_kept_;
}

std::string ServedLoop::fetch(const Feed& /*feed*/) {
  left_kept_ = left_;  // processes that leave later may not be in it
  const ServedPosition position = strategy_.keep();
  pushes_ = position.heads.front().pushes;
  return position.encode();
}

bool ServedLoop::wait_for_others(const std::function<void()>& look) {
  // A stopped chief ends the run. If it left instead, its towers' tokens would let others continue.
  if (is_chief() && parts_.stopped) {
    last_ = strategy_.figures();
    return true;
  }
  strategy_.leave_run();
  if (is_chief()) wait_as_chief(look);
  return true;
}

void ServedLoop::wait_as_chief(const std::function<void()>& look) {
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
    if (parts_.stopped) return;
    look();
    std::this_thread::sleep_for(kLookEvery);
  }
}

void ServedLoop::end() {
  if (!is_chief()) return;
  strategy_.end(parts_.stopped ? Status(ErrorCode::cancelled, "the chief was stopped") : Status());
}

void ServedLoop::tell_of_waiting() const {
  std::string whom;
  for (const int process : last_.lost)
    whom += (whom.empty() ? "process " : ", ") + std::to_string(process);
  const auto left = (static_cast<std::uint64_t>(job_.lost_wait.count()) - last_.lost_ms) / 1000;
  log(LogLevel::warning, "waiting " + std::to_string(left) + " s at most for " + whom +
                             " to be started again: what it was to train on is left");
}

void ServedLoop::report(TrainResult& result) const {
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
