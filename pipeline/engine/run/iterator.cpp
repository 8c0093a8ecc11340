#include <penstock/iterator.h>

#include <chrono>
#include <optional>

#include <penstock/dataset.h>
#include <penstock/internal/start_thread.h>
#include <penstock/log.h>
#include <penstock/plan.h>

#include "pipeline/core/forks.h"
#include "pipeline/engine/plan/guarantee.h"
#include "pipeline/engine/run/consumer_times.h"
#include "pipeline/engine/run/position.h"
#include "pipeline/engine/run/run.h"
#include "pipeline/engine/run/saved_run.h"
#include "pipeline/engine/run/start.h"

namespace penstock {

namespace {

Error moved_from() {
  return {ErrorCode::invalid_argument, "the iterator was moved from"};
}

}  // namespace

class Iterator::Impl {
 public:
  Impl(Plan plan, const RunOptions& options, const RunSetting& setting, const RunHooks& hooks)
      : forks_(first_forks()),
        run_(std::make_unique<Run>(std::move(plan), options, setting, hooks.open_workers)),
        position_({run_->state(), run_->activity(), run_->step_back(), run_->segments(),
                   run_->ledger(), run_->tuning(), run_->stages()}) {
    RunControl* const control = run_->state().control();
    if (control != nullptr && position_.returns()) {
      control->mark = [this] { return std::make_shared<const SavedRun>(position_.mark()); };
      control->go_back = [this](const SavedRun& saved) { return go_back(saved); };
    }
    if (hooks.observe != nullptr) observed_ = hooks.observe([this] { return stats(); });
  }

  Impl(Plan plan, const RunOptions& options, const RunSetting& setting, const RunHooks& hooks,
       const SavedRun& saved)
      : Impl(std::move(plan), options, setting, hooks) {
    position_.restore(saved);
  }

  ~Impl() {
    run_->cancel();
    position_.close();
  }

  /// Returns nothing if no element has come by `deadline`.
  std::optional<Next> next(Position::Deadline deadline) {
    std::optional<Next> next = take_next(deadline);
    run_->ledger().write_down();
    run_->tuning().write_down();
    return next;
  }

  bool next_epoch() {
    MutexLock lock(consumer_mutex_);
    return position_.next_epoch();
  }

  std::string save() { return position_.save(); }

  bool go_back(const SavedRun& saved) {
    MutexLock lock(consumer_mutex_);
    if (run_->state().cancelled()) return false;
    return position_.go_back(saved);
  }

  /// False in a child of `fork`, where the run has no threads.
  bool at_home() const noexcept { return forks() == forks_; }

  /// Cancels the run and waits until no work is running. Returns false if that took too long.
  bool close() noexcept {
    observed_.reset();
    run_->cancel();
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(run_->state().options().close_deadline_ms);
    while (run_->activity().at_work() > 0) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

  std::uint64_t epoch() const noexcept { return position_.epoch(); }
  void cancel() noexcept { run_->cancel(); }

  Stats stats() const {
    Stats stats;
    stats.stages = run_->stages().stats();
    const Memory& memory = run_->memory();
    stats.memory = {memory.limit(), memory.used(), memory.peak()};
    stats.errors = run_->ledger().stats();
    stats.errors.mostly_bad = position_.mostly_bad();
    if (const RemoteWork* const remote = run_->remote()) {
      RemoteWork::Figures figures = remote->figures();
      stats.workers = std::move(figures.workers);
      stats.groups_of_workers = figures.groups_of_workers;
      stats.groups_made_here = figures.groups_made_here;
    }
    stats.errors.retried = run_->retry().count();
    position_.fill(stats);
    stats.threads = run_->state().threads();
    stats.readers = run_->executors().readers();
    stats.decisions = run_->tuning().decisions();
    stats.seed = run_->state().options().seed;
    const std::optional<BatchInfo>& batches = run_->state().plan().batches();
    if (batches && batches->element.is_static()) stats.slot_bytes = batches->slot_bytes;
    stats.guarantee = name_of(run_->state().plan().guarantee());
    times_.fill(stats);
    return stats;
  }

 private:
  /// Returns the fork count of the first run's process. In a child of another process, locks that
  /// runs share may be held.
  static std::uint64_t first_forks() {
    static const std::uint64_t first = forks();
    if (forks() != first) throw away_from_home();
    return first;
  }

  std::optional<Next> take_next(Position::Deadline deadline) EXCLUDES(consumer_mutex_) {
    MutexLock lock(consumer_mutex_);
    if (run_->state().cancelled()) return stopped();
    if (position_.over()) return Next(End{});
    ElementRef item;
    std::optional<bool> taken;
    try {
      const ConsumerTimes::Waiting waiting(times_);
      taken = position_.pull(item, deadline);
    } catch (...) {
      if (run_->state().cancelled()) return stopped();
      position_.fail();
      const Status status = status_from_current_exception();
      if (status.error().code() == ErrorCode::changed) end();
      return Next(status);
    }
    if (!taken) return std::nullopt;
    if (!*taken) {
      const std::optional<std::string> line = position_.finish_epoch();
      if (line) times_.ended();
      const Status verdict = line ? position_.judge_epoch() : Status();
      if (!verdict.ok()) end();
      lock.unlock();  // the sink may ask for the next element
      if (line) log(LogLevel::info, *line);
      return verdict.ok() ? Next(End{}) : Next(verdict);
    }
    if (!item.payload->status.ok()) return failure(item.payload->status);
    times_.got_one();
    return Next(std::move(item.payload->element));
  }

  /// Returns the reason once after the run was cancelled, and then the end.
  Next stopped() REQUIRES(consumer_mutex_) {
    return std::exchange(told_, true) ? Next(End{}) : Next(run_->state().why_stopped());
  }

  Next failure(const Status& status) REQUIRES(consumer_mutex_) {
    if (status.error().code() == ErrorCode::cancelled) {
      return run_->state().cancelled() ? stopped() : Next(status);
    }
    if (!run_->state().skips()) run_->ledger().surfaced(status.error());
    if (status.error().code() == ErrorCode::changed) end();
    return Next(status);
  }

  /// Ends the run behind an error that `next` is about to return.
  void end() REQUIRES(consumer_mutex_) {
    told_ = true;
    run_->cancel();
  }

  const std::uint64_t forks_;
  const std::unique_ptr<Run> run_;
  Position position_;
  ConsumerTimes times_;
  // Held by the one thread that is in `next` or `next_epoch`, while it waits too.
  SlowMutex consumer_mutex_;
  // True once `next` has returned the reason why the run was stopped.
  bool told_ GUARDED_BY(consumer_mutex_) = false;
  std::unique_ptr<ObservedRun> observed_;  // last, so that the objects that it observes exist
};

Element& Next::value() {
  if (is_end()) throw Error(ErrorCode::out_of_range, "the dataset has ended");
  if (is_error()) throw error();
  return std::get<Element>(outcome_);
}

Iterator::Iterator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Iterator::Iterator(Iterator&&) noexcept = default;
Iterator& Iterator::operator=(Iterator&& other) noexcept {
  if (this != &other) {
    close();
    impl_ = std::move(other.impl_);
  }
  return *this;
}
Iterator::~Iterator() {
  close();
}

// A read that never completes still needs the memory that it writes to. So the run is left to a
// thread that waits for the read, however long that takes.
void Iterator::close() noexcept {
  if (!impl_) return;
  if (!impl_->at_home()) {
    static_cast<void>(impl_.release());  // its threads belong to the parent
    return;
  }
  if (impl_->close()) return;
  log_once(LogLevel::warning, "iterator-close",
           "a run was closed while a read or a callable in it was still running; it is kept until "
           "that returns");
  Impl* const left = impl_.release();
  try {
    start_thread("a read that hangs", [left] { delete left; }).detach();
  } catch (...) {
    // No thread can be started that waits for it, so the run is kept for ever.
  }
}

Iterator::Impl& Iterator::run_here() const {
  if (!impl_) throw moved_from();
  if (!impl_->at_home()) throw away_from_home();
  return *impl_;
}

Next Iterator::next() {
  return *next_until(Position::Deadline::max());
}
std::optional<Next> Iterator::next_within(std::chrono::milliseconds time) {
  const auto now = std::chrono::steady_clock::now();
  return next_until(time < Position::Deadline::max() - now ? now + time
                                                           : Position::Deadline::max());
}
std::optional<Next> Iterator::next_until(std::chrono::steady_clock::time_point deadline) {
  if (impl_ && impl_->at_home()) return impl_->next(deadline);
  return Next(impl_ ? away_from_home() : moved_from());
}
bool Iterator::next_epoch() {
  return impl_ && impl_->at_home() && impl_->next_epoch();
}
std::uint64_t Iterator::epoch() const noexcept {
  return impl_ ? impl_->epoch() : 0;
}
void Iterator::cancel() noexcept {
  if (impl_ && impl_->at_home()) impl_->cancel();
}
Stats Iterator::stats() const {
  return run_here().stats();
}
std::string Iterator::save() const {
  return run_here().save();
}

Iterator start_run(const Dataset& dataset, const RunOptions& options, const RunSetting& setting,
                   const RunHooks& hooks) {
  return Iterator(
      std::make_unique<Iterator::Impl>(compile(dataset, options), options, setting, hooks));
}

Iterator restart_run(const Dataset& dataset, std::string_view state, RunOptions options,
                     const RunSetting& setting, const RunHooks& hooks) {
  const SavedRun saved = SavedRun::parse(state, Fingerprint(*dataset.node(), !options.trust_data));
  options.seed = saved.seed;
  Plan plan = compile(dataset, options);
  if (!saved.other_shards.empty()) {
    const Fingerprint::OtherShard& other = saved.other_shards.front();
    const std::string& why = plan.inelastic();
    throw Error(
        ErrorCode::invalid_argument,
        "the state was saved from another dataset: stage " + other.stage +
            " differs: it was shard " + std::to_string(other.old_index) + " of " +
            std::to_string(other.old_count) + ", not " + std::to_string(other.index) + " of " +
            std::to_string(other.count) + "; " +
            (why.empty() ? "to resume with another number of consumers, give the states of "
                           "all that stopped"
                         : "this dataset can't resume with another number of consumers: " + why));
  }
  return Iterator(
      std::make_unique<Iterator::Impl>(std::move(plan), options, setting, hooks, saved));
}

Iterator restart_run(const Dataset& dataset, const std::vector<std::string>& states,
                     RunOptions options, const RunSetting& setting, const RunHooks& hooks) {
  const SavedRun merged = SavedRun::merge(states, compile(dataset, options), options.trust_data);
  options.seed = merged.seed;
  return Iterator(
      std::make_unique<Iterator::Impl>(compile(dataset, options), options, setting, hooks, merged));
}

}  // namespace penstock
