#include <penstock/iterator.h>

#include <chrono>
#include <cstring>
#include <thread>

#include <penstock/dataset.h>
#include <penstock/log.h>

#include "pipeline/engine/edge.h"
#include "pipeline/engine/fingerprint.h"
#include "pipeline/engine/run.h"
#include "pipeline/io/crc32c.h"

namespace penstock {

namespace {

constexpr std::string_view kMagic = "penstock state 1\n";

std::uint32_t checksum(std::string_view bytes) {
  return crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

/// What a state starts with, checked.
struct SavedRun {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool ended = false;
  std::uint64_t errors = 0;
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  std::string_view tree;

  static SavedRun parse(std::string_view bytes, const Node& root) {
    const Error damaged(ErrorCode::data_loss, "the state is damaged");
    if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 4) throw damaged;
    std::uint32_t sum = 0;
    std::memcpy(&sum, bytes.data() + bytes.size() - 4, 4);
    bytes.remove_suffix(4);
    if (sum != checksum(bytes)) throw damaged;
    StateReader state(bytes.substr(kMagic.size()));
    Fingerprint(root).check(state);
    SavedRun saved;
    saved.seed = state.get();
    saved.epoch = state.get();
    saved.ended = state.get() != 0;
    saved.errors = state.get();
    saved.elements = state.get();
    saved.batches = state.get();
    saved.tree = state.get_bytes();
    return saved;
  }
};

}  // namespace

class Iterator::Impl {
 public:
  Impl(NodePtr root, const RunOptions& options)
      : epochs_(options.epochs), run_(std::move(root), options) {}

  Impl(NodePtr root, const RunOptions& options, const SavedRun& saved)
      : Impl(std::move(root), options) {
    epoch_ = saved.epoch;
    elements_ = saved.elements;
    batches_ = saved.batches;
    run_.ledger().restore(saved.errors, saved.elements);
    MutexLock consumer(consumer_mutex_);
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
    if (!ended_ && epochs_ > 0 && !run_.cancelled()) static_cast<Edge&>(current()).start();
    StateWriter state;
    Fingerprint(run_.root()).save(state);
    state.put(run_.seed());
    state.put(epoch_);
    state.put(ended_ ? 1 : 0);
    state.put(run_.ledger().stats().count);
    state.put(elements_);
    state.put(batches_);
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
    if (ended_) return Next(End{});
    if (!item.parcel->status.ok()) {
      const Error& error = item.parcel->status.error();
      if (error.code() == ErrorCode::cancelled) return Next(error);
      if (run_.options().on_error == OnError::fail) run_.ledger().surfaced(error);
      return Next(error);
    }
    Element element = item.parcel->element;
    const bool batch = element.valid_rows >= 0;
    elements_ += batch ? static_cast<std::uint64_t>(element.valid_rows) : 1;
    batches_ += batch ? 1 : 0;
    return Next(std::move(element));
  }

  bool next_epoch() {
    MutexLock lock(consumer_mutex_);
    if (epoch_ + 1 >= epochs_ || run_.cancelled()) return false;
    OrderIteratorPtr old;
    {
      MutexLock trees(trees_mutex_);
      old.swap(current_);
      ++epoch_;
      ended_ = false;
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
    stats.elements = elements_;
    stats.batches = batches_;
    stats.threads = run_.threads();
    return stats;
  }

 private:
  static Error cancelled() { return Error(ErrorCode::cancelled, "the run was cancelled"); }

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
  Run run_;
  Mutex consumer_mutex_;
  bool ended_ GUARDED_BY(consumer_mutex_) = false;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> elements_{0};
  std::atomic<std::uint64_t> batches_{0};
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
  options.seed = saved.seed;
  return Iterator(std::make_unique<Iterator::Impl>(node_, options, saved));
}

}  // namespace penstock
