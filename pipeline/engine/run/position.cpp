#include "pipeline/engine/run/position.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <penstock/state.h>

#include "pipeline/engine/plan/guarantee.h"
#include "pipeline/engine/run/saved_run.h"

namespace penstock {

namespace {

constexpr std::size_t kKeptEpochs = 1000;

}  // namespace

Position::Position(const Services& services)
    : run_(services),
      epochs_(run_.state.options().epochs),
      trees_(run_.state.plan(), run_.stages, run_.activity, epochs_) {
  run_.step_back.allow(returns());
}

bool Position::returns() const {
  const Plan& plan = run_.state.plan();
  return plan.unsavable().empty() && again_the_same(*plan.root());
}

void Position::restore(const SavedRun& saved) {
  run_.ledger.restore(saved.errors);
  StateReader passed(saved.passed);
  run_.stages.restore_passed(passed);
  // Caches that the saved run had filled fill again. Within an epoch, their own states tell.
  if (saved.ended || (saved.epoch > 0 && saved.tree.empty())) trees_.first_was_counted();
  {
    MutexLock lock(mutex_);
    epoch_ = saved.epoch;
    elements_ = saved.elements;
    batches_ = saved.batches;
    errors_before_ = saved.errors;
    in_epoch_ = saved.in_epoch;
    ended_ = saved.ended;
    failed_ = false;
  }
  saved.restore_records(*run_.state.plan().root());
  if (saved.ended || saved.epoch >= epochs_) return;
  StepBack& step_back = run_.step_back;
  step_back.allow(false);
  bool again = false;
  try {
    trees_.open(epoch_, saved.tree);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted || run_.state.cancelled()) throw;
    again = true;
  }
  step_back.allow(returns());
  if (!again && !step_back.asked()) return;
  // Stages that make again what they held do so ahead, too. One element at a time takes less.
  trees_.close();
  step_back.done();
  trees_.open(epoch_, saved.tree);
}

bool Position::go_back(const SavedRun& saved) {
  const std::chrono::milliseconds deadline(run_.state.options().close_deadline_ms);
  if (!leaving_.destroy(leave(), run_.state.cancelled_flag(), deadline)) return false;
  trees_.close();
  run_.ledger.step_back();
  {
    MutexLock lock(epochs_mutex_);
    if (!finished_.empty() && finished_.back().epoch == saved.epoch) finished_.pop_back();
  }
  restore(saved);
  return true;
}

std::string Position::save() {
  const std::string& unsavable = run_.state.plan().unsavable();
  if (!unsavable.empty()) throw Error(ErrorCode::invalid_argument, unsavable);
  // Before the lock, because the first fingerprint may read files.
  const Fingerprint graph(*run_.state.plan().root(), !run_.state.options().trust_data);
  const SavedRun saved = mark();
  // A run that restores the state does not meet these elements again.
  run_.ledger.write_down();
  run_.tuning.write_down();
  return saved.bytes(graph);
}

SavedRun Position::mark() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      // While another thread opens the epoch, the position is the epoch's beginning. A source that
      // is being opened may save, too.
      if (is_over() || run_.state.cancelled() || opening_ > 0 || trees_.known()) return state();
    }
    open();  // what a tree finds when it is opened belongs to the position, such as a full cache
  }
}

SavedRun Position::state() const {
  SavedRun saved;
  saved.seed = run_.state.options().seed;
  saved.epoch = epoch_;
  saved.ended = ended_;
  saved.errors = errors_before_;
  // A restored run does not open an epoch that has ended, so the counts of its stages go here.
  const std::uint64_t key = epoch_key(run_.state.options().seed, epoch_);
  if (ended_) saved.errors += run_.ledger.in_epoch(key).errors();
  StateWriter passed;
  run_.stages.save_passed(passed, ended_ ? std::optional(key) : std::nullopt);
  saved.passed = passed.take();
  saved.elements = elements_;
  saved.batches = batches_;
  saved.in_epoch = in_epoch_;
  saved.tree = trees_.save();
  saved.save_records(*run_.state.plan().root(), run_.state.options().exact_state);
  return saved;
}

bool Position::over() const {
  MutexLock lock(mutex_);
  return is_over();
}

std::optional<bool> Position::pull(ElementRef& item, Deadline deadline) {
  using std::chrono::milliseconds;
  const auto take_now = [&] {
    const std::optional<bool> taken = take(item);
    tree_->let_go();
    return taken;
  };
  std::optional<bool> taken = tree_ != nullptr ? take_now() : std::nullopt;
  if (taken && (*taken || over())) return *taken;  // it waits for nothing
  const AtWork at_work(run_.activity, AtWork::Consumes());
  const Counted waits = run_.activity.consumer_waits();
  for (;;) {
    if (taken) {
      step_back();
    } else if (tree_ != nullptr) {
      const auto left =
          std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left <= milliseconds::zero()) return std::nullopt;
      tree_->wait(left);
    }
    if (tree_ == nullptr) tree_ = open();
    taken = take_now();
    if (taken && (*taken || over())) return *taken;
  }
}

// Takes the next item, if there is one now, and counts it as delivered. Returns nothing if there is
// none now, and false if none comes: the epoch is over, or the run has to step back.
std::optional<bool> Position::take(ElementRef& item) {
  MutexLock lock(mutex_);
  std::optional<std::size_t> pulled;
  try {
    pulled = tree_->try_pull({&item, 1});
  } catch (...) {
    if (!tree_->broken() || run_.state.cancelled()) throw;
    item = ref_to(Payload::make(status_from_current_exception()), 0);  // an error like others
    pulled = 1;
  }
  if (!pulled) return std::nullopt;
  if (*pulled == 0) {
    // What broke a tree that is about to be made again may lie ahead of the position.
    const bool again = run_.step_back.wanted();
    failed_ = !again && tree_->broken();
    ended_ = !again && !failed_;
    return false;
  }
  count(*item.payload);
  run_.step_back.received();
  // The position lies in front of such an error, which would come once more.
  const Status& status = item.payload->status;
  if (!status.ok() && run_.ledger.ends_with(status.error())) run_.step_back.allow(false);
  return true;
}

void Position::count(const Payload& payload) {
  if (!payload.status.ok()) {
    const bool skipped = run_.state.skips();
    if (!skipped && payload.status.error().code() != ErrorCode::cancelled) ++errors_before_;
    return;
  }
  const Element& element = payload.element;
  const bool batch = element.valid_rows >= 0;
  const std::uint64_t rows = batch ? static_cast<std::uint64_t>(element.valid_rows) : 1;
  elements_ += rows;
  batches_ += batch ? 1 : 0;
  in_epoch_.elements += rows;
  in_epoch_.batches += batch ? 1 : 0;
  if (batch && element.size() > 0 && element[0].rank() > 0) {
    in_epoch_.padded_rows += static_cast<std::uint64_t>(element[0].dim(0)) - rows;
  }
}

void Position::fail() {
  MutexLock lock(mutex_);
  failed_ = true;
}

std::optional<std::string> Position::finish_epoch() {
  EpochStats epoch;
  {
    MutexLock lock(mutex_);
    if (failed_) return std::nullopt;
    in_epoch_.epoch = epoch_;
    in_epoch_.skipped = run_.ledger.in_epoch(epoch_key(run_.state.options().seed, epoch_)).bad;
    in_epoch_.expected = run_.state.plan().expected_elements();
    if (in_epoch_.expected >= 0) {
      const auto seen = static_cast<std::int64_t>(in_epoch_.elements + in_epoch_.skipped);
      in_epoch_.missing = std::max<std::int64_t>(0, in_epoch_.expected - seen);
      in_epoch_.repeated = std::max<std::int64_t>(0, seen - in_epoch_.expected);
    }
    epoch = in_epoch_;
  }
  MutexLock lock(epochs_mutex_);
  if (finished_.size() == kKeptEpochs) finished_.erase(finished_.begin());
  finished_.push_back(epoch);
  return line_of(epoch, run_.state.plan().guarantee());
}

Status Position::judge_epoch() {
  if (!run_.state.skips()) return {};
  run_.segments.settle();
  return run_.ledger.judge(epoch_key(run_.state.options().seed, epoch_));
}

std::optional<Error> Position::mostly_bad() const {
  if (!run_.state.skips()) return {};
  run_.segments.settle();
  const Status verdict = run_.ledger.verdict(epoch_key(run_.state.options().seed, epoch()));
  return verdict.ok() ? std::nullopt : std::optional(verdict.error());
}

bool Position::next_epoch() {
  if (epoch_ + 1 >= epochs_ || run_.state.cancelled()) return false;
  bool ended = false;
  {
    MutexLock lock(mutex_);
    ended = ended_;
  }
  SegmentPtr old = leave();
  const std::chrono::milliseconds deadline(run_.state.options().close_deadline_ms);
  if (!ended && !leaving_.destroy(std::move(old), run_.state.cancelled_flag(), deadline))
    return false;
  old.reset();
  Segment* begun = nullptr;
  {
    MutexLock lock(mutex_);
    ++epoch_;
    ended_ = failed_ = false;
    in_epoch_ = {};
    errors_before_ += run_.ledger.begin(epoch_key(run_.state.options().seed, epoch_));
    begun = trees_.advance();
  }
  run_.step_back.allow(returns());
  if (begun != nullptr) trees_.watch(*begun, epoch_);
  return true;
}

// Takes everything down and continues from the position, in the same way as a restored run.
void Position::step_back() {
  leave().reset();
  trees_.close();
  run_.step_back.done();
  trees_.open(epoch_, trees_.save());
}

// Opens this epoch's tree if its position is not known, and starts it. Returns the tree; null if
// the epoch is being left.
Segment* Position::open() {
  MutexLock lock(opening_mutex_);
  if (!trees_.known()) {
    const Counted opening(opening_);
    trees_.open(epoch_, {});
  }
  Segment* const tree = trees_.current();
  if (tree != nullptr) tree->start();
  return tree;
}

// Another thread may be about to start the tree.
SegmentPtr Position::leave() {
  MutexLock lock(opening_mutex_);
  tree_ = nullptr;
  return trees_.leave();
}

void Position::fill(Stats& stats) const {
  {
    MutexLock lock(epochs_mutex_);
    stats.epochs = finished_;
  }
  stats.elements = elements_;
  stats.batches = batches_;
  stats.epoch = epoch_;
}

}  // namespace penstock
