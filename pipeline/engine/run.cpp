#include "pipeline/engine/run.h"

#include <algorithm>
#include <array>

#include <penstock/log.h>

#include "pipeline/core/most_threads.h"
#include "pipeline/core/sizes.h"
#include "pipeline/engine/batch_edge.h"
#include "pipeline/engine/inline_values.h"
#include "pipeline/engine/value_edge.h"
#include "pipeline/order/cache.h"

namespace penstock {
namespace {

int random_stages(const Node& node) {
  int count = node.random() ? 1 : 0;
  for (const NodePtr& input : node.inputs()) count += random_stages(*input);
  return count;
}

constexpr int kUsualReaders = 64;
constexpr int kReadersEach = 128;  // for each thread that computes

thread_local const AtWork* working = nullptr;  // whom this thread is at work for

/// Threads for one run.
struct Threads {
  int compute = 0;
  int waiting = 0;  // at most
};

void check(const RunOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, what);
  };
  const auto check_range = [&](const char* name, int value, int most) {
    if (value < 0 || value > most)
      refuse(std::string(name) + " must be in [0, " + std::to_string(most) + "], not " +
             std::to_string(value));
  };
  check_range("threads", options.threads, kMostThreads);
  check_range("io_threads", options.io_threads, kMostIoThreads);
  check_range("slots", options.slots, 1 << 20);
  if (options.epochs == 0) refuse("epochs must be at least 1");
  // Written so that NaN is refused.
  if (!(options.max_error_share >= 0 && options.max_error_share <= 1))
    refuse("max_error_share must be in [0, 1], not " + std::to_string(options.max_error_share));
  const RunOptions usual;
  const bool bounded =
      options.max_errors != usual.max_errors || options.max_error_share != usual.max_error_share;
  if (options.on_error != OnError::skip && (bounded || !options.quarantine.empty()))
    refuse("max_errors, max_error_share and quarantine need OnError::skip");
}

/// As many as were asked for, or as the system lets this process start: they are started when they
/// are needed, and what arranges elements then still has room for its own.
Threads threads_for(const RunOptions& options) {
  check(options);
  constexpr int kOthers = 3;  // what arranges elements, and some to spare
  Threads threads{options.threads > 0 ? options.threads : usable_cpus(),
                  options.io_threads > 0 ? options.io_threads : kUsualReaders};
  const int wanted = threads.compute + threads.waiting + kOthers;
  const int found = startable_threads(wanted);
  if (found == wanted) return threads;
  const std::string what =
      "only " + std::to_string(found) +
      " threads can be started (RLIMIT_NPROC, RLIMIT_AS or the container's pids.max)";
  if (found < kOthers + 2) {
    throw Error(ErrorCode::resource_exhausted,
                what + ", and a run takes " + std::to_string(kOthers + 2));
  }
  threads.compute = std::min(threads.compute, found - kOthers - 1);
  threads.waiting = std::min(threads.waiting, found - kOthers - threads.compute);
  log_once(LogLevel::warning, "threads",
           what + ": computing with " + std::to_string(threads.compute) + ", waiting with up to " +
               std::to_string(threads.waiting));
  return threads;
}

/// Memory for streams, whose threads may wait for it.
class StreamMemory final : public ReadContext {
 public:
  explicit StreamMemory(Run& run) : run_(run) {}
  bool again(const Error& error, int tries) override {
    return run_.retry().again(error, tries, true);
  }
  BufferPtr allocate(std::size_t bytes) override {
    for (Patience patience;;) {
      std::uint64_t promised = 0;
      if (BufferPtr buffer = run_.memory().allocate(bytes, promised)) return buffer;
      run_.check_stop();
      if (bytes > run_.memory().limit() || !run_.wait_for_memory(patience)) {
        throw Error(ErrorCode::resource_exhausted,
                    "needs " + std::to_string(bytes) + " bytes, and the memory budget of " +
                        std::to_string(run_.memory().limit()) + " has no room for them");
      }
    }
  }

 private:
  Run& run_;
};

}  // namespace

AtWork::AtWork(Run& run, const std::atomic<bool>* stop) noexcept
    : run_(run), stop_(stop), outer_(std::exchange(working, this)) {
  run_.active.fetch_add(1, std::memory_order_acq_rel);
}
AtWork::~AtWork() {
  run_.take_off(run_.active);
  working = outer_;
}
Resting::Resting() noexcept {
  if (working != nullptr) working->run_.take_off(working->run_.active);
}
Resting::~Resting() {
  if (working != nullptr) working->run_.active.fetch_add(1, std::memory_order_acq_rel);
}

Waiting::Waiting(Run& run) noexcept : run_(run) {
  run_.consumers_waiting.fetch_add(1, std::memory_order_acq_rel);
}
Waiting::~Waiting() {
  run_.consumers_waiting.fetch_sub(1, std::memory_order_acq_rel);
}

Run::Run(Plan plan, const RunOptions& options)
    : plan_(std::move(plan)),
      options_(options),
      threads_(threads_for(options).compute),
      memory_(std::make_shared<Memory>(plan_.memory_limit(), Allocator::heap())),
      stream_memory_(std::make_unique<StreamMemory>(*this)) {
  plan_.check_memory();
  for (const PlannedStage& stage : plan_.stages()) {
    counters_.push_back(std::make_unique<StageCounters>());
    if (stage.batches) batch_stages_ += stage.uses;
  }
  std::uint64_t slots = 0;  // with spare rows
  for (const PlannedStage& stage : plan_.stages()) {
    if (!stage.batches || !stage.batches->in_place) continue;
    slots = saturating_sum(slots, saturating_product(stage.uses, layout_for(*stage.node).bytes));
  }
  memory_->set_least_slots(slots);
  int most = threads_for(options).waiting;
  if (options.io_threads == 0 && most == kUsualReaders) {
    most = std::clamp(kReadersEach * threads_, kReadersEach, kMostThreads);  // tried when needed
  }
  blocking_ = std::make_unique<BlockingPool>(options.io_threads > 0 ? most : 1, most, tuning_);
  workers_ = std::make_unique<Workers>(threads_, options.threads == 0, consumers_waiting, tuning_);
}

Run::~Run() {
  cancel();
  blocking_.reset();
  workers_.reset();
}

// Counted among the stages that draw, from the source on, so that a stage that draws nothing
// changes no numbers.
std::uint32_t Run::rng_op(const Node& node) {
  constexpr std::uint32_t kNested = 0x80000000U;
  const PlannedStage* const own = plan_.find(node);
  if (own == nullptr) return kNested + static_cast<std::uint32_t>(random_stages(node));
  std::uint32_t draws = 0;
  for (const PlannedStage& stage : plan_.stages()) {
    draws += stage.node->random() ? 1 : 0;
    if (&stage == own) break;
  }
  return draws;
}

StageCounters* Run::counters(const Node& node) {
  if (const PlannedStage* const stage = plan_.find(node)) return counters_[number_of(*stage)].get();
  MutexLock lock(mutex_);
  std::unique_ptr<StageCounters>& counters = nested_counters_[node.name()];
  if (!counters) counters = std::make_unique<StageCounters>();
  return counters.get();
}

Run::Learnt& Run::learnt(const Node& owner) {
  const StageCounters* stage = counters(owner);
  MutexLock lock(mutex_);
  return learnt_[stage];
}

std::string Run::stage_name(const Node& node) {
  const PlannedStage* const stage = plan_.find(node);
  return stage != nullptr ? stage->label : node.name();
}

const Program* Run::intern(const Node& node, const Program* parent,
                           std::unique_ptr<Program> candidate) {
  MutexLock lock(mutex_);
  // A stage may gather, and do something to what it gathers.
  std::unique_ptr<const Program>& known = programs_[{&node, parent, candidate->gather()}];
  if (!known) known = std::move(candidate);
  return known.get();
}

std::shared_ptr<CacheStore> Run::cache(const Node& node, const OpenContext& context) {
  MutexLock lock(mutex_);
  std::shared_ptr<CacheStore>& store =
      context.caches ? context.caches->stores[&node] : caches_[&node];
  if (!store) store = std::make_shared<CacheStore>(context.place);
  return store;
}

OrderIteratorPtr Run::values(const Node& owner, OrderIteratorPtr input, const OpenContext& context,
                             bool ordered) {
  if (context.nested) {
    return std::make_unique<InlineValues>(*this, owner, std::move(input), context);
  }
  return std::make_unique<ValueEdge>(*this, owner, std::move(input), context, ordered);
}

Item Run::made(const Item& item, const OpenContext& context) {
  WorkItem work;
  make_here(*this, epoch_key(options_.seed, context.epoch), {&item, 1}, {&work, 1});
  return value_of(item, work);
}

std::size_t Run::slots_for(const Node& node, std::uint64_t slot_bytes) const {
  // Small batches are made many ahead, so that waking somebody pays.
  constexpr std::uint64_t kAhead = 4U << 20;
  std::size_t wanted = std::clamp<std::uint64_t>(kAhead / slot_bytes, 4, 32);
  if (const std::int64_t ahead = plan_.find(node)->prefetch; ahead > 0) {
    wanted = static_cast<std::size_t>(ahead) + 1;
  }
  if (options_.slots > 0) wanted = static_cast<std::size_t>(options_.slots);
  // An eighth is left for what is in flight.
  const std::uint64_t share = memory_->limit() / 8 * 7 / batch_stages_;
  return std::clamp<std::size_t>(share / slot_bytes, 1, wanted);
}

std::size_t Run::most_slots(const Node& node, std::uint64_t slot_bytes) const {
  constexpr std::uint64_t kMost = 64;
  const std::size_t usual = slots_for(node, slot_bytes);
  if (options_.slots > 0 || plan_.find(node)->prefetch > 0) return usual;
  const std::uint64_t share = memory_->limit() / 8 * 7 / batch_stages_;
  return std::max<std::size_t>(usual, std::min(share / slot_bytes, kMost));
}

// Where failed elements are passed over each leaves a gap, which costs nothing to close with a few
// rows to spare, if there is room for them.
SlotLayout Run::layout_for(const Node& node) const {
  const BatchInfo& batches = *plan_.find(node)->batches;
  const Spec& element = batches.element;
  const std::int64_t rows = batches.rows;
  if (options_.on_error == OnError::skip && rows > 1) {
    SlotLayout spare(element, rows, std::clamp<std::int64_t>(rows / 16, 1, 8));
    if (slots_for(node, spare.bytes) > 1) return spare;
  }
  return {element, rows};
}

OrderIteratorPtr Run::batches(const Node& node, OrderIteratorPtr input, const OpenContext& context,
                              bool drop_remainder) {
  std::shared_ptr<SlotPool> pool;
  std::size_t slots = 0;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<SlotPool>& known = pools_[{&node, context.place.path}];
    SlotLayout layout = layout_for(node);
    slots = slots_for(node, layout.bytes);
    if (!known) {
      known = std::make_shared<SlotPool>(std::move(layout), slots, memory_, options_.slot_allocator,
                                         waker_);
    }
    pool = known;
  }
  const std::size_t rows = slots * static_cast<std::size_t>(plan_.find(node)->batches->rows);
  const std::size_t limit =
      std::clamp<std::size_t>(rows / (2 * static_cast<std::size_t>(threads_)), 1, 8192);
  return std::make_unique<BatchEdge>(*this, node, std::move(input), context,
                                     mix_path(context.path, number_of(*plan_.find(node))),
                                     std::move(pool), limit, drop_remainder);
}

void Run::save_passed(StateWriter& state, std::optional<std::uint64_t> key) const {
  for (const auto& counters : counters_) {
    const Passed passed = ledger_.before(counters.get(), key);
    state.put(passed.seen);
    state.put(passed.bad);
  }
}

void Run::restore_passed(StateReader& state) {
  for (const auto& counters : counters_) {
    const std::uint64_t seen = state.get();
    ledger_.restore(counters.get(), {seen, state.get()});
  }
}

SegmentPtr Run::open(std::uint64_t epoch) {
  OpenContext context{*this, epoch};
  context.first_counted = first_counted_;
  OrderIteratorPtr top = root().open(context);
  if (top->segment() == nullptr) top = values(root(), std::move(top), context, true);
  SegmentPtr segment(top->segment());
  (void)top.release();
  return segment;
}

void Run::cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
  retry_.stop();
  waker_->notify();
  memory_->wake();
  wake_pulls();
}

int Run::take_off(std::atomic<int>& count) noexcept {
  const int before = count.fetch_sub(1, std::memory_order_seq_cst);
  if (before <= 0) {
    count.fetch_add(1, std::memory_order_seq_cst);
    lose_count();
  }
  return before;
}

// As `cancel`, but for those who wait within a pull, since this may be under the lock of one: they
// look by themselves ten times a second.
void Run::lose_count() noexcept {
  lost_count_.store(true, std::memory_order_release);
  cancelled_.store(true, std::memory_order_release);
  retry_.stop();
  waker_->notify();
  memory_->wake();
}

Error Run::why_stopped() const {
  if (lost_count_.load(std::memory_order_acquire)) {
    return {ErrorCode::internal,
            "the engine lost count of its work, so the run was ended: a defect of Penstock"};
  }
  return {ErrorCode::cancelled, "the run was cancelled"};
}

bool Run::stopping() const noexcept {
  if (cancelled()) return true;
  return working != nullptr && &working->run_ == this && working->stop_ != nullptr &&
         working->stop_->load(std::memory_order_acquire);
}

void Run::wake_pulls() noexcept {
  MutexLock lock(edges_mutex_);
  for (Edge* edge : edges_) edge->wake();
}

void Run::add(Edge& edge) {
  MutexLock lock(edges_mutex_);
  edges_.push_back(&edge);
}

void Run::remove(Edge& edge) noexcept {
  MutexLock lock(edges_mutex_);
  std::erase(edges_, &edge);
}

void Run::submit(std::function<void()> work, bool may_wait) {
  if (may_wait) {
    blocking_->submit(std::move(work));
  } else {
    workers_->submit(std::move(work));
  }
}

bool Run::wait_for_memory(Patience& patience) {
  const Resting resting;
  const std::uint64_t seen = memory_->releases();
  memory_waiters.fetch_add(1, std::memory_order_acq_rel);
  memory_->wait_for_release(seen, 20);
  bool hope = true;
  if (patience.over(*this)) {
    hope = evict();
    patience.renew();
  }
  memory_waiters.fetch_sub(1, std::memory_order_acq_rel);
  return hope;
}

bool Run::evict() {
  MutexLock lock(edges_mutex_);
  return std::any_of(edges_.begin(), edges_.end(), [](Edge* edge) { return edge->evict(); });
}

bool Run::steps_back() const noexcept {
  return working == nullptr && steps_back_.load(std::memory_order_acquire);
}

std::vector<StageStats> Run::stages() const {
  std::vector<StageStats> result;
  for (const PlannedStage& stage : plan_.stages()) {
    const StageCounters& counters = *counters_[number_of(stage)];
    StageStats stats;
    stats.name = stage.label;
    stats.items = counters.items.load(std::memory_order_relaxed);
    stats.bytes = counters.bytes.load(std::memory_order_relaxed);
    stats.busy_s = 1e-9 * static_cast<double>(counters.busy_ns.load(std::memory_order_relaxed));
    const std::array<std::pair<const char*, double>, 3> waits{{
        {"input", 1e-9 * static_cast<double>(counters.wait_input_ns.load())},
        {"output", 1e-9 * static_cast<double>(counters.wait_output_ns.load())},
        {"memory", 1e-9 * static_cast<double>(counters.wait_memory_ns.load())},
    }};
    double longest = 1e-3;
    for (const auto& [what, seconds] : waits) {
      stats.wait_s += seconds;
      if (seconds > longest) {
        longest = seconds;
        stats.waits_on = what;
      }
    }
    result.push_back(std::move(stats));
  }
  return result;
}

}  // namespace penstock
