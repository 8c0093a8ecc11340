#include <penstock/iterator.h>

#include <chrono>
#include <optional>
#include <thread>

#include <penstock/dataset.h>
#include <penstock/log.h>
#include <penstock/plan.h>
#include <penstock/state.h>

#include "pipeline/core/forks.h"
#include "pipeline/core/observed_run.h"
#include "pipeline/engine/consumer_times.h"
#include "pipeline/engine/epoch_trees.h"
#include "pipeline/engine/guarantee.h"
#include "pipeline/engine/leaving.h"
#include "pipeline/engine/run.h"
#include "pipeline/engine/saved_run.h"

namespace penstock {

namespace {

constexpr std::size_t kKeptEpochs = 1000;

Error moved_from() {
  return {ErrorCode::invalid_argument, "the iterator was moved from"};
}

}  // namespace

class Iterator::Impl {
 public:
  Impl(Plan plan, const RunOptions& options)
      : forks_(first_forks()),
        epochs_(options.epochs),
        run_(std::make_unique<Run>(std::move(plan), options)) {
    if (run_->plan().unsavable().empty() && again_the_same(*run_->plan().root())) {
      run_->step_back().allow();
    }
    observed_ = ObservedRun([this] { return stats(); });
  }

  Impl(Plan plan, const RunOptions& options, const SavedRun& saved)
      : Impl(std::move(plan), options) {
    epoch_ = saved.epoch;
    elements_ = saved.elements;
    batches_ = saved.batches;
    run_->ledger().restore(saved.errors);
    StateReader passed(saved.passed);
    run_->stages().restore_passed(passed);
    if (saved.epoch > 0 || saved.ended) trees_.first_was_counted();
    MutexLock consumer(consumer_mutex_);
    errors_before_ = saved.errors;
    in_epoch_ = saved.in_epoch;
    ended_ = saved.ended;
    saved.restore_records(*run_->plan().root());
    if (ended_ || saved.epoch >= epochs_) return;
    trees_.open(epoch_, saved.tree);
  }

  std::string save() EXCLUDES(consumer_mutex_) {
    const std::string& unsavable = run_->plan().unsavable();
    if (!unsavable.empty()) throw Error(ErrorCode::invalid_argument, unsavable);
    // Before the lock, because the first fingerprint may read files.
    const Fingerprint graph(*run_->plan().root(), !run_->options().trust_data);
    MutexLock consumer(consumer_mutex_);
    if (!ended_ && !failed_ && epochs_ > 0 && !run_->cancelled()) {
      current().start();
    }
    SavedRun saved;
    saved.seed = run_->options().seed;
    saved.epoch = epoch_;
    saved.ended = ended_;
    saved.errors = errors_before_;
    // A restored run does not open an epoch that has ended, so the counts of its stages go here.
    const std::uint64_t key = epoch_key(run_->options().seed, epoch_);
    if (ended_) saved.errors += run_->ledger().skipped(key);
    StateWriter passed;
    run_->stages().save_passed(passed, ended_ ? std::optional(key) : std::nullopt);
    saved.passed = passed.take();
    saved.elements = elements_;
    saved.batches = batches_;
    saved.in_epoch = in_epoch_;
    StateWriter tree;
    trees_.save(tree);
    saved.tree = tree.take();
    saved.save_records(*run_->plan().root());
    return saved.bytes(graph);
  }

  ~Impl() {
    run_->cancel();
    trees_.close();
  }

  Next next() {
    MutexLock lock(consumer_mutex_);
    if (run_->cancelled()) return stopped();
    if (ended_ || failed_ || epochs_ == 0) return Next(End{});
    ElementRef item;
    try {
      const ConsumerTimes::Waiting waiting(times_);
      bool over = pull(item);
      for (; over && !failed_ && run_->step_back().wanted(); over = pull(item)) step_back();
      ended_ = over && !failed_;
    } catch (...) {
      if (run_->cancelled()) return stopped();
      failed_ = true;
      return Next(status_from_current_exception());
    }
    if (failed_) return Next(End{});
    if (ended_) {
      times_.ended();
      const std::string line = finish_epoch();
      lock.unlock();  // the sink may ask for a state
      log(LogLevel::info, line);
      return Next(End{});
    }
    return item.payload->status.ok() ? delivered(item.payload->element)
                                     : failure(item.payload->status);
  }

  bool next_epoch() {
    MutexLock lock(consumer_mutex_);
    if (epoch_ + 1 >= epochs_ || run_->cancelled()) return false;
    SegmentPtr old = trees_.leave();
    const bool in_the_middle = !ended_;
    ++epoch_;
    ended_ = failed_ = false;
    in_epoch_ = {};
    const std::chrono::milliseconds deadline(run_->options().close_deadline_ms);
    if (in_the_middle && !leaving_.destroy(std::move(old), run_->cancelled_flag(), deadline))
      return false;
    old.reset();
    errors_before_ += run_->ledger().begin(epoch_key(run_->options().seed, epoch_));
    trees_.go_on(epoch_);
    return true;
  }

  /// False in a child of `fork`, where the run has no threads.
  bool at_home() const noexcept { return forks() == forks_; }

  /// Cancels the run and waits until no work is running. Returns false if that took too long.
  bool close() noexcept {
    observed_.leave();
    run_->cancel();
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(run_->options().close_deadline_ms);
    while (run_->activity().at_work() > 0) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

  std::uint64_t epoch() const noexcept { return epoch_; }
  void cancel() noexcept { run_->cancel(); }

  Stats stats() const {
    Stats stats;
    stats.stages = run_->stages().stats();
    const Memory& memory = run_->memory();
    stats.memory = {memory.limit(), memory.used(), memory.peak()};
    stats.errors = run_->ledger().stats();
    if (const RemoteWork* const remote = run_->remote()) {
      RemoteWork::Figures figures = remote->figures();
      stats.workers = std::move(figures.workers);
      stats.groups_of_workers = figures.groups_of_workers;
      stats.groups_made_here = figures.groups_made_here;
    }
    stats.errors.retried = run_->retry().count();
    {
      MutexLock lock(epochs_mutex_);
      stats.epochs = finished_;
    }
    stats.elements = elements_;
    stats.batches = batches_;
    stats.threads = run_->threads();
    stats.readers = run_->readers();
    stats.decisions = run_->tuning().decisions();
    stats.seed = run_->options().seed;
    const std::optional<BatchInfo>& batches = run_->plan().batches();
    if (batches && batches->element.is_static()) stats.slot_bytes = batches->slot_bytes;
    stats.guarantee = name_of(run_->plan().guarantee());
    stats.epoch = epoch_;
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

  /// Returns the reason once after the run was cancelled, and then the end.
  Next stopped() REQUIRES(consumer_mutex_) {
    return std::exchange(told_, true) ? Next(End{}) : Next(run_->why_stopped());
  }

  Next failure(const Status& status) REQUIRES(consumer_mutex_) {
    if (status.error().code() == ErrorCode::cancelled) {
      return run_->cancelled() ? stopped() : Next(status);
    }
    if (run_->options().on_error != OnError::skip) {
      run_->ledger().surfaced(status.error());
      ++errors_before_;
    }
    return Next(status);
  }

  Next delivered(Element element) REQUIRES(consumer_mutex_) {
    times_.got_one();
    const bool batch = element.valid_rows >= 0;
    const std::uint64_t rows = batch ? static_cast<std::uint64_t>(element.valid_rows) : 1;
    elements_ += rows;
    batches_ += batch ? 1 : 0;
    in_epoch_.elements += rows;
    in_epoch_.batches += batch ? 1 : 0;
    if (batch && element.size() > 0 && element[0].rank() > 0) {
      in_epoch_.padded_rows += static_cast<std::uint64_t>(element[0].dim(0)) - rows;
    }
    return Next(std::move(element));
  }

  /// Records the audit of an epoch that was delivered to its end. Returns it as a line.
  std::string finish_epoch() REQUIRES(consumer_mutex_) {
    in_epoch_.epoch = epoch_;
    in_epoch_.skipped = run_->ledger().skipped(epoch_key(run_->options().seed, epoch_));
    in_epoch_.expected = run_->plan().expected_elements();
    if (in_epoch_.expected >= 0) {
      const auto seen = static_cast<std::int64_t>(in_epoch_.elements + in_epoch_.skipped);
      in_epoch_.missing = std::max<std::int64_t>(0, in_epoch_.expected - seen);
      in_epoch_.repeated = std::max<std::int64_t>(0, seen - in_epoch_.expected);
    }
    {
      MutexLock lock(epochs_mutex_);
      if (finished_.size() == kKeptEpochs) finished_.erase(finished_.begin());
      finished_.push_back(in_epoch_);
    }
    return line_of(in_epoch_, run_->plan().guarantee());
  }

  /// Returns true if no item comes.
  bool pull(ElementRef& item) REQUIRES(consumer_mutex_) {
    Segment& source = current();
    const Counted waits = run_->activity().consumer_waits();
    bool over = false;
    try {
      over = source.pull({&item, 1}) == 0;
    } catch (...) {
      if (!source.broken() || run_->cancelled()) throw;
      item = ref_to(Payload::make(status_from_current_exception()), 0);  // an error like others
    }
    failed_ = over && source.broken();
    return over;
  }

  /// Takes everything down and continues from the consumer's position, in the same way as a
  /// restored run.
  void step_back() REQUIRES(consumer_mutex_) {
    StateWriter position;
    trees_.save(position);
    trees_.close();
    run_->step_back().done();
    trees_.open(epoch_, position.take());
  }

  /// Returns the tree of this epoch. Only the consumer replaces it.
  Segment& current() REQUIRES(consumer_mutex_) {
    Segment* const tree = trees_.current();
    return tree != nullptr ? *tree : trees_.open(epoch_, {});
  }

  const std::uint64_t forks_;
  const std::uint64_t epochs_;
  const std::unique_ptr<Run> run_;
  EpochTrees trees_{*run_, epochs_};
  Leaving leaving_;  // used by the consumer
  ConsumerTimes times_;
  Mutex consumer_mutex_;
  bool ended_ GUARDED_BY(consumer_mutex_) = false;
  // True once `next` has returned the reason why the run was stopped.
  bool told_ GUARDED_BY(consumer_mutex_) = false;
  // The epoch cannot continue. It is over for the consumer, but not for a run that restores a state
  // of this one.
  bool failed_ GUARDED_BY(consumer_mutex_) = false;
  std::uint64_t errors_before_ GUARDED_BY(consumer_mutex_) = 0;  // as SavedRun::errors
  EpochStats in_epoch_ GUARDED_BY(consumer_mutex_);
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> elements_{0};
  std::atomic<std::uint64_t> batches_{0};
  mutable Mutex epochs_mutex_;
  std::vector<EpochStats> finished_ GUARDED_BY(epochs_mutex_);
  ObservedRun observed_;  // last, so that the objects that it observes exist
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
           "a run was closed while a read or a callable in it did not come back; it is kept until "
           "that does");
  Impl* const left = impl_.release();
  try {
    std::thread([left] { delete left; }).detach();
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
  if (impl_ && impl_->at_home()) return impl_->next();
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

Iterator Dataset::iterate(const RunOptions& options) const {
  return Iterator(std::make_unique<Iterator::Impl>(compile(*this, options), options));
}

Iterator Dataset::restore(std::string_view state, RunOptions options) const {
  const SavedRun saved = SavedRun::parse(state, Fingerprint(*node_, !options.trust_data));
  options.seed = saved.seed;
  Plan plan = compile(*this, options);
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
  return Iterator(std::make_unique<Iterator::Impl>(std::move(plan), options, saved));
}

Iterator Dataset::restore(const std::vector<std::string>& states, RunOptions options) const {
  const SavedRun merged = SavedRun::merge(states, compile(*this, options), options.trust_data);
  options.seed = merged.seed;
  return Iterator(std::make_unique<Iterator::Impl>(compile(*this, options), options, merged));
}

}  // namespace penstock
