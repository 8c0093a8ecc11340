#include "pipeline/engine/run/run.h"

#include <utility>

namespace penstock {

Run::Run(Plan plan, const RunOptions& options, const RunSetting& setting, OpenWorkers* open_workers)
    : state_(std::move(plan), options, setting),
      memory_(std::make_shared<Memory>(state_.plan().memory_limit(), Allocator::heap())),
      ledger_(state_.options()),
      retry_(state_.options()),
      slots_(state_.plan(), state_.options(), memory_, waker_),
      activity_(
          state_.threads(), [this] { lose_count(); }, [this] { line_.resolve(); }, setting.holder),
      step_back_({.state = state_,
                  .memory = *memory_,
                  .activity = activity_,
                  .waker = *waker_,
                  .segments = segments_,
                  .slots = slots_,
                  .ledger = ledger_},
                 setting.alone),
      executors_(
          std::make_unique<Executors>(state_, activity_.consumers_waiting(), step_back_, tuning_)),
      line_({.executors = *executors_,
             .activity = activity_,
             .memory = *memory_,
             .waker = *waker_,
             .segments = segments_,
             .slots = slots_,
             .step_back = step_back_}),
      factory_({{.state = state_,
                 .memory = *memory_,
                 .activity = activity_,
                 .waker = *waker_,
                 .executors = *executors_,
                 .segments = segments_,
                 .line = line_,
                 .step_back = step_back_,
                 .ledger = ledger_,
                 .tuning = *tuning_},
                slots_,
                retry_,
                remote_}),
      stages_({.state = state_,
               .memory = *memory_,
               .activity = activity_,
               .line = line_,
               .ledger = ledger_,
               .retry = retry_,
               .segments = factory_}) {
  if (step_back_.alone()) memory_->be_exact();
  if (!state_.options().workers.addresses.empty() && open_workers != nullptr)
    remote_ = open_workers({state_, *waker_, retry_, stages_, step_back_});
}

Run::~Run() {
  cancel();
  remote_.reset();
  executors_.reset();
  ledger_.write_down();
  tuning_->write_down();
}

void Run::cancel() noexcept {
  stop();
  segments_.wake();
}

void Run::stop() noexcept {
  state_.cancel();
  retry_.stop();
  waker_->notify();
  memory_->wake();
}

// Threads that wait within a pull are not woken, since this may be called under the lock of one.
// They check by themselves ten times a second.
void Run::lose_count() noexcept {
  state_.lose_count();
  stop();
}

}  // namespace penstock
