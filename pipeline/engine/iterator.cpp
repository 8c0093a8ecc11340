#include <penstock/iterator.h>

#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include <penstock/dataset.h>
#include <penstock/log.h>

#include "pipeline/engine/edge.h"
#include "pipeline/engine/fingerprint.h"
#include "pipeline/engine/guarantee.h"
#include "pipeline/engine/run.h"
#include "pipeline/io/crc32c.h"
#include "pipeline/order/shard.h"

namespace penstock {

namespace {

constexpr std::string_view kMagic = "penstock state 2\n";
constexpr std::size_t kKeptEpochs = 1000;

std::uint32_t checksum(std::string_view bytes) {
  return crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

/// What a state starts with, checked.
struct SavedRun {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool ended = false;
  std::uint64_t errors = 0;  // those that skip passed over in this epoch aside
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  EpochStats in_epoch;
  std::string tree;
  std::vector<Fingerprint::OtherShard> other_shards;

  static SavedRun parse(std::string_view bytes, const Node& root) {
    const Error damaged(ErrorCode::data_loss, "the state is damaged");
    if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 4) throw damaged;
    std::uint32_t sum = 0;
    std::memcpy(&sum, bytes.data() + bytes.size() - 4, 4);
    bytes.remove_suffix(4);
    if (sum != checksum(bytes)) throw damaged;
    StateReader state(bytes.substr(kMagic.size()));
    SavedRun saved;
    saved.other_shards = Fingerprint(root).check(state);
    saved.seed = state.get();
    saved.epoch = state.get();
    saved.ended = state.get() != 0;
    saved.errors = state.get();
    saved.elements = state.get();
    saved.batches = state.get();
    saved.in_epoch.elements = state.get();
    saved.in_epoch.batches = state.get();
    saved.in_epoch.padded_rows = state.get();
    saved.tree = state.get_bytes();
    return saved;
  }

  /// Items of the topmost stage's input that were delivered in this epoch.
  std::uint64_t consumed() const { return tree.empty() ? 0 : StateReader(tree).get(); }
};

/// Which shard a state was saved by.
Fingerprint::OtherShard shard_of(const SavedRun& saved, const Node& root) {
  if (!saved.other_shards.empty()) return saved.other_shards.front();
  const Node* node = &root;
  while (node->name() != "shard") node = node->inputs()[0].get();
  Description description;
  node->describe(description);
  Fingerprint::OtherShard same;
  for (const auto& [key, value] : description.entries()) {
    if (key == "count") same.count = same.old_count = std::stoull(value);
    if (key == "index") same.index = same.old_index = std::stoull(value);
  }
  return same;
}

/// One state of those of all consumers of a run, for a consumer of another number of them.
SavedRun merge(const std::vector<std::string>& states, const Node& root) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                "the run can't go on with another number of consumers: " + why);
  };
  if (const std::string why = inelastic(root); !why.empty()) refuse(why);
  if (states.empty()) refuse("there are no states");
  SavedRun merged;
  std::uint64_t elements = 0;
  std::set<std::uint64_t> seen;
  std::uint64_t count = 0;
  std::uint64_t here = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    SavedRun saved = SavedRun::parse(states[i], root);
    const Fingerprint::OtherShard shard = shard_of(saved, root);
    if (i == 0) {
      merged = saved;
      count = shard.old_count;
      here = shard.count;
    }
    const auto name = [](std::size_t consumer) { return "state " + std::to_string(consumer); };
    if (shard.old_count != count || !seen.insert(shard.old_index).second) {
      refuse(name(i) + " is of shard " + std::to_string(shard.old_index) + " of " +
             std::to_string(shard.old_count) + ", which does not go with those before it");
    }
    if (saved.seed != merged.seed || saved.epoch != merged.epoch || saved.ended != merged.ended ||
        saved.consumed() != merged.consumed() ||
        saved.in_epoch.batches != merged.in_epoch.batches) {
      refuse(name(0) + " was saved behind " + std::to_string(merged.consumed()) +
             " elements of epoch " + std::to_string(merged.epoch) + ", and " + name(i) +
             " behind " + std::to_string(saved.consumed()) + " of epoch " +
             std::to_string(saved.epoch));
    }
    elements += saved.elements;
  }
  if (seen.size() != count) {
    refuse("there are " + std::to_string(seen.size()) + " states of " + std::to_string(count) +
           " consumers");
  }
  StateWriter tree;  // of an edge: what it consumed, passed over, and its input's state
  const std::uint64_t consumed = merged.consumed();
  for (const std::uint64_t number :
       {consumed, std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0}}) {
    tree.put(number);
  }
  tree.put_bytes(resharded_state(consumed * count));
  tree.put(merged.in_epoch.batches);
  merged.tree = tree.take();
  merged.elements = elements / here;
  return merged;
}

}  // namespace

class Iterator::Impl {
 public:
  Impl(NodePtr root, const RunOptions& options)
      : epochs_(options.epochs), unsavable_(unsavable(*root)), run_(std::move(root), options) {}

  Impl(NodePtr root, const RunOptions& options, const SavedRun& saved)
      : Impl(std::move(root), options) {
    epoch_ = saved.epoch;
    elements_ = saved.elements;
    batches_ = saved.batches;
    run_.ledger().restore(saved.errors, saved.elements);
    MutexLock consumer(consumer_mutex_);
    errors_before_ = saved.errors;
    in_epoch_ = saved.in_epoch;
    ended_ = saved.ended;
    if (ended_ || saved.epoch >= epochs_) return;
    OrderIteratorPtr opened = run_.open(epoch_);
    if (!saved.tree.empty()) {
      StateReader tree(saved.tree);
      opened->restore(tree);
    }
    OrderIterator& tree = *opened;
    {
      MutexLock lock(trees_mutex_);
      current_ = std::move(opened);
    }
    watch(tree, epoch_);
  }

  std::string save() {
    MutexLock consumer(consumer_mutex_);
    if (!unsavable_.empty()) throw Error(ErrorCode::invalid_argument, unsavable_);
    if (!ended_ && epochs_ > 0 && !run_.cancelled()) static_cast<Edge&>(current()).start();
    StateWriter state;
    Fingerprint(run_.root()).save(state);
    state.put(run_.seed());
    state.put(epoch_);
    state.put(ended_ ? 1 : 0);
    state.put(errors_before_);
    state.put(elements_);
    state.put(batches_);
    state.put(in_epoch_.elements);
    state.put(in_epoch_.batches);
    state.put(in_epoch_.padded_rows);
    StateWriter tree;
    {
      MutexLock lock(trees_mutex_);
      if (current_) current_->save(tree);
    }
    state.put_bytes(tree.bytes());
    std::string bytes(kMagic);
    bytes += state.bytes();
    const std::uint32_t sum = checksum(bytes);
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    return bytes;
  }

  ~Impl() {
    run_.cancel();
    OrderIteratorPtr current;
    OrderIteratorPtr upcoming;
    {
      MutexLock lock(trees_mutex_);
      current.swap(current_);
    }
    current.reset();  // may still be opening the next epoch
    {
      MutexLock lock(trees_mutex_);
      upcoming.swap(upcoming_);
    }
  }

  Next next() {
    MutexLock lock(consumer_mutex_);
    if (run_.cancelled()) return Next(cancelled());
    if (ended_ || epochs_ == 0) return Next(End{});
    Item item;
    try {
      OrderIterator& source = current();
      run_.consumers_waiting.fetch_add(1, std::memory_order_acq_rel);
      ended_ = source.pull({&item, 1}) == 0;
      run_.consumers_waiting.fetch_sub(1, std::memory_order_acq_rel);
    } catch (...) {
      ended_ = true;
      return Next(status_from_current_exception().error());
    }
    if (ended_) {
      finish_epoch();
      return Next(End{});
    }
    if (!item.parcel->status.ok()) {
      const Error& error = item.parcel->status.error();
      if (error.code() == ErrorCode::cancelled) return Next(error);
      if (run_.options().on_error != OnError::skip) {
        run_.ledger().surfaced(error);
        ++errors_before_;
      }
      return Next(error);
    }
    Element element = item.parcel->element;
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

  bool next_epoch() {
    MutexLock lock(consumer_mutex_);
    if (epoch_ + 1 >= epochs_ || run_.cancelled()) return false;
    OrderIteratorPtr old;
    {
      MutexLock trees(trees_mutex_);
      old.swap(current_);
      errors_before_ += run_.ledger().skipped(epoch_key(run_.seed(), epoch_));
      ++epoch_;
      ended_ = false;
      in_epoch_ = {};
    }
    old.reset();
    OrderIterator* tree = nullptr;
    {
      MutexLock trees(trees_mutex_);
      if (upcoming_) current_.swap(upcoming_);
      tree = current_.get();
    }
    if (tree != nullptr) watch(*tree, epoch_);
    return true;
  }

  /// Cancels, and waits until nothing is at work. False if that took too long.
  bool close() noexcept {
    run_.cancel();
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(run_.options().close_deadline_ms);
    while (run_.active.load(std::memory_order_acquire) > 0) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

  std::uint64_t epoch() const noexcept { return epoch_; }
  void cancel() noexcept { run_.cancel(); }

  Stats stats() const {
    Stats stats;
    stats.stages = run_.stages();
    Memory& memory = const_cast<Run&>(run_).memory();
    stats.memory = {memory.limit(), memory.used(), memory.peak()};
    stats.errors = const_cast<Run&>(run_).ledger().stats();
    stats.errors.retried = const_cast<Run&>(run_).retry().count();
    {
      MutexLock lock(epochs_mutex_);
      stats.epochs = finished_;
    }
    stats.elements = elements_;
    stats.batches = batches_;
    stats.threads = run_.threads();
    return stats;
  }

 private:
  static Error cancelled() { return Error(ErrorCode::cancelled, "the run was cancelled"); }

  /// The audit of an epoch that was delivered to its end.
  void finish_epoch() REQUIRES(consumer_mutex_) {
    in_epoch_.epoch = epoch_;
    in_epoch_.skipped = run_.ledger().skipped(epoch_key(run_.seed(), epoch_));
    {
      MutexLock lock(epochs_mutex_);
      if (finished_.size() == kKeptEpochs) finished_.erase(finished_.begin());
      finished_.push_back(in_epoch_);
    }
    std::string line = "epoch " + std::to_string(in_epoch_.epoch) + ": " +
                       std::to_string(in_epoch_.elements) + " elements in " +
                       std::to_string(in_epoch_.batches) + " batches, " +
                       std::to_string(in_epoch_.skipped) + " skipped";
    if (in_epoch_.padded_rows > 0) {
      line += ", " + std::to_string(in_epoch_.padded_rows) + " rows of padding";
    }
    log(LogLevel::info, line + "; " + std::string(name_of(guarantee_of(run_.root()))));
  }

  /// The tree of this epoch, which only the consumer replaces.
  OrderIterator& current() REQUIRES(consumer_mutex_) {
    {
      MutexLock lock(trees_mutex_);
      if (current_) return *current_;
    }
    OrderIteratorPtr opened = run_.open(epoch_);
    OrderIterator& tree = *opened;
    {
      MutexLock lock(trees_mutex_);
      current_ = std::move(opened);
    }
    watch(tree, epoch_);
    return tree;
  }

  /// When everything of this epoch has been handed over, the next one is begun. Called without the
  /// lock on the trees, because that may be now.
  void watch(OrderIterator& tree, std::uint64_t epoch) EXCLUDES(trees_mutex_) {
    if (epoch + 1 >= epochs_) return;
    static_cast<Edge&>(tree).on_exhausted([this, epoch] {
      OrderIteratorPtr opened;
      try {
        opened = run_.open(epoch + 1);
      } catch (...) {
        return;  // the consumer will open it and get the error
      }
      static_cast<Edge&>(*opened).start();
      MutexLock lock(trees_mutex_);
      if (epoch_ == epoch && !upcoming_) upcoming_.swap(opened);
    });
  }

  const std::uint64_t epochs_;
  const std::string unsavable_;
  Run run_;
  Mutex consumer_mutex_;
  bool ended_ GUARDED_BY(consumer_mutex_) = false;
  std::uint64_t errors_before_ GUARDED_BY(consumer_mutex_) = 0;  // as SavedRun::errors
  EpochStats in_epoch_ GUARDED_BY(consumer_mutex_);
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> elements_{0};
  std::atomic<std::uint64_t> batches_{0};
  mutable Mutex epochs_mutex_;
  std::vector<EpochStats> finished_ GUARDED_BY(epochs_mutex_);
  Mutex trees_mutex_;
  OrderIteratorPtr current_ GUARDED_BY(trees_mutex_);
  OrderIteratorPtr upcoming_ GUARDED_BY(trees_mutex_);
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

// A read that never completes keeps what it writes to: the run is left to a thread that waits for
// it, however long.
void Iterator::close() noexcept {
  if (!impl_ || impl_->close()) return;
  try {
    log_once(
        LogLevel::warning, "iterator-close",
        "a run was closed while a read or a callable in it did not come back; it is kept until "
        "that does");
    std::thread([left = impl_.get()] { delete left; }).detach();
    (void)impl_.release();
  } catch (...) {
    return;  // then it is waited for
  }
}

Next Iterator::next() {
  return impl_->next();
}
bool Iterator::next_epoch() {
  return impl_->next_epoch();
}
std::uint64_t Iterator::epoch() const noexcept {
  return impl_->epoch();
}
void Iterator::cancel() noexcept {
  impl_->cancel();
}
Stats Iterator::stats() const {
  return impl_->stats();
}
std::string Iterator::save() const {
  return impl_->save();
}

Iterator Dataset::iterate(const RunOptions& options) const {
  return Iterator(std::make_unique<Iterator::Impl>(node_, options));
}

Iterator Dataset::restore(std::string_view state, RunOptions options) const {
  const SavedRun saved = SavedRun::parse(state, *node_);
  if (!saved.other_shards.empty()) {
    const Fingerprint::OtherShard& other = saved.other_shards.front();
    const std::string why = inelastic(*node_);
    throw Error(
        ErrorCode::invalid_argument,
        "the state was saved from another dataset: stage " + other.stage +
            " differs: it was shard " + std::to_string(other.old_index) + " of " +
            std::to_string(other.old_count) + ", not " + std::to_string(other.index) + " of " +
            std::to_string(other.count) + "; " +
            (why.empty() ? "a run goes on with another number of consumers from the states "
                           "of all that stopped"
                         : "this dataset can't go on with another number of consumers: " + why));
  }
  options.seed = saved.seed;
  return Iterator(std::make_unique<Iterator::Impl>(node_, options, saved));
}

Iterator Dataset::restore(const std::vector<std::string>& states, RunOptions options) const {
  const SavedRun merged = merge(states, *node_);
  options.seed = merged.seed;
  return Iterator(std::make_unique<Iterator::Impl>(node_, options, merged));
}

}  // namespace penstock
