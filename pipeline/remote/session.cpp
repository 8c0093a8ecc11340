#include "pipeline/remote/session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <numeric>
#include <utility>

#include <penstock/internal/start_thread.h>
#include <penstock/log.h>
#include <penstock/version.h>

#include "pipeline/core/sizes.h"
#include "pipeline/core/thread_name.h"
#include "pipeline/engine/make/local_runner.h"
#include "pipeline/remote/packed.h"
#include "pipeline/remote/session_work.h"
#include "pipeline/remote/transport.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"
#include "pipeline/stage/fingerprint.h"
#include "pipeline/stage/node.h"

namespace penstock::remote {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostInGroup = 8192;
constexpr std::size_t kMostUnderWay = 4096;
constexpr std::chrono::milliseconds kBetweenLooks{100};
constexpr std::chrono::milliseconds kUntilRead{10};
/// What a message costs besides its bytes: its owner, and the group that is kept with an answer.
constexpr std::size_t kBytesOfMessage = 512;
constexpr std::size_t kBytesOfAnswer = 8192;
/// The most results of rows that are kept until they are stored (LocalRunner).
constexpr std::size_t kMostKept = 1024;
/// What a run may send beyond what the welcome message allows, such as programs.
constexpr std::size_t kSlack = 1 << 20;

/// An owner of a message that is not read yet.
class Unread {
 public:
  Unread(std::shared_ptr<std::atomic<std::size_t>> all, WireBytes& message)
      : all_(std::move(all)),
        bytes_(message.size() + kBytesOfAnswer),
        owner_(std::move(message.owner)) {
    all_->fetch_add(bytes_, std::memory_order_relaxed);
  }
  Unread(const Unread&) = delete;
  Unread& operator=(const Unread&) = delete;
  ~Unread() {
    owner_.reset();
    all_->fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  const std::shared_ptr<std::atomic<std::size_t>> all_;
  const std::size_t bytes_;
  std::shared_ptr<const void> owner_;
};

/// Returns the hash of everything that elements depend on besides their place in the graph.
ElementKey graph_key(const Plan& plan, const Hello& hello) {
  StateWriter all;
  Fingerprint(*plan.root()).save(all);
  all.put_bytes(hello.graph);
  all.put(hello.seed);
  all.put(hello.shards);
  all.put(hello.shard);
  return element_key(all.bytes().data(), all.bytes().size());
}

/// Fewer bytes fit one or two packets, compressed or not.
constexpr std::size_t kLeastToPack = 4096;
/// Memory for answers that are under way, beside gaps (kMostBytesUnderWay of the pool).
constexpr std::size_t kMostShared = std::size_t{48} << 20;

/// After this time, a run makes elements itself that another run has not made yet.
constexpr std::chrono::seconds kMostWait{2};

bool failed(const Group& group, std::size_t item) {
  return std::ranges::any_of(group.failures,
                             [item](const auto& failure) { return failure.first == item; });
}

/// Returns a view of one row.
Element element_at(const Slot& slot, std::size_t row) {
  const SlotLayout& layout = slot.layout();
  Element element;
  element.start(layout.names);
  for (std::size_t c = 0; c < layout.element.size(); ++c) {
    const ComponentSpec& component = layout.element[c];
    if (component.dtype == DType::bytes)
      element.append(Tensor::bytes(slot.text(c, row), BufferPtr()));
    else
      element.append(component.dtype, component.shape, slot.row(row).data(c), BufferPtr());
  }
  return element;
}

/// Returns the rows of the slot for these items, as the fewest runs of neighbours.
std::vector<Place> places_of(Slot& slot, const std::vector<std::uint32_t>& items) {
  std::vector<Place> places;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    if (!places.empty() && places.back().row + places.back().count == items[i])
      ++places.back().count;
    else
      places.push_back({&slot, 0, items[i], i, 1});
  }
  return places;
}

}  // namespace

Session::Session(Served& served, WorkerLink& link)
    : served_(served), bell_(std::make_shared<Bell>(*this)), link_(&link) {
  thread_ = start_thread("an input worker's run",
                         [this](const std::stop_token& stop) { take_messages(stop); });
}

Session::~Session() {
  gone_ = true;
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  {
    const MutexLock lock(bell_->mutex);
    bell_->session = nullptr;
  }
  if (graph_ != 0) served_.cache->leave(graph_);
  run_.reset();
  if (greeted_) --served_.runs;
}

bool Session::idle() const {
  const MutexLock lock(mutex_);
  return under_way_.empty() && waiting_.empty() && !taking_;
}

bool Session::awaits_hello() const {
  const MutexLock lock(mutex_);
  return !greeted_ && link_ != nullptr;
}

bool Session::over() const {
  const MutexLock lock(mutex_);
  return link_ == nullptr && under_way_.empty() && !taking_;
}

void Session::leave() noexcept {
  try {
    send(encode_leaving());
  } catch (...) {
    close();
  }
}

void Session::close() noexcept {
  const MutexLock lock(mutex_);
  if (link_ != nullptr) link_->close();
}

void Session::received(WireBytes message) noexcept {
  try {
    const MutexLock lock(mutex_);
    waiting_bytes_ += message.size() + kBytesOfMessage;
    waiting_.push_back(std::move(message));
    // A run never sends more than the limit in the welcome message, but for one group that is
    // larger.
    if (waiting_bytes_ > most_waiting_ + kSlack && (waiting_.size() > 1 || !greeted_) &&
        link_ != nullptr)
      link_->close();
  } catch (...) {
    close();
  }
  changed_.notify_all();
}

void Session::lost(const Status& /*why*/) noexcept {
  gone_ = true;
  const MutexLock lock(mutex_);
  link_ = nullptr;
  waiting_.clear();
  waiting_bytes_ = 0;
  to_tend_ = true;
  changed_.notify_all();
}

void Session::send(WireBytes message) noexcept {
  const MutexLock lock(mutex_);
  if (link_ == nullptr) return;
  try {
    message.owner = std::make_shared<Unread>(unread_, message);
    link_->send(std::move(message));
  } catch (...) {
    link_->close();
  }
}

// Returns false for a run that asks without reading the answers: they would fill the memory.
bool Session::may_take() const {
  return !waiting_.empty() && unread_->load(std::memory_order_relaxed) <= most_waiting_ + kSlack;
}

// Waits for a message. Returns false if the session ends. Groups that wait for other runs are also
// checked at intervals.
bool Session::wait(const std::stop_token& stop, std::optional<WireBytes>& message, bool& tend) {
  const MutexLock lock(mutex_);
  taking_ = false;
  while (!may_take() && !to_tend_ && !stop.stop_requested()) {
    if (!waiting_.empty()) {
      changed_.wait_for(mutex_, stop, kUntilRead);
    } else if (shared_ == 0) {
      changed_.wait(mutex_, stop);
    } else if (!changed_.wait_for(mutex_, stop, kBetweenLooks)) {
      to_tend_ = true;
    }
  }
  if (stop.stop_requested()) return false;
  taking_ = true;
  tend = std::exchange(to_tend_, false);
  if (!may_take()) return true;
  message = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= std::min(waiting_bytes_, message->size() + kBytesOfMessage);
  return true;
}

void Session::take_messages(const std::stop_token& stop) noexcept {
  name_this_thread("penstock-serve");
  for (;;) {
    std::optional<WireBytes> message;
    bool look = false;
    if (!wait(stop, message, look)) return;
    if (look) tend();
    if (!message) continue;
    try {
      take(*std::move(message));
    } catch (...) {
      served_.refused.fetch_add(1, std::memory_order_relaxed);
      const Status why = status_from_current_exception();
      try {
        send(encode_refused(why));
      } catch (...) {
        close();
      }
    }
  }
}

void Session::take(WireBytes bytes) {
  Incoming message(std::move(bytes));
  switch (message.kind()) {
    case Kind::hello:
      return greet(message.head());
    case Kind::program:
      if (!programs_) malformed("a program before hello");
      return programs_->add(message.head());
    case Kind::ask:
      if (!programs_) malformed("a question before hello");
      return make(message);
    case Kind::welcome:
    case Kind::refused:
    case Kind::answer:
    case Kind::leaving:
      break;
  }
  malformed("a run answers");
}

// Only now does the run take one of the worker's places: strangers who say nothing do not.
void Session::greet(StateReader& head) {
  if (run_) malformed("a second hello");
  {
    const MutexLock lock(mutex_);
    if (!greeted_) {
      if (++served_.runs > served_.options.most_runs) {
        --served_.runs;
        if (link_ != nullptr) link_->close();
        return;
      }
      greeted_ = true;
      if (link_ != nullptr) link_->admit();
    }
  }
  try {
    begin_run(head);
  } catch (...) {
    const MutexLock lock(mutex_);
    if (!run_ && std::exchange(greeted_, false)) --served_.runs;
    throw;
  }
}

Dataset Session::dataset_for(const Hello& hello) const {
  if (!hello.graph.empty()) {
    if (!served_.make)
      throw Error(ErrorCode::invalid_argument,
                  "this worker serves the dataset of its own program, not graphs as text");
    return served_.make(hello.graph);
  }
  if (!served_.dataset)
    throw Error(ErrorCode::invalid_argument,
                "this worker serves graphs as text; a run with a program's own callables needs "
                "workers of the same program");
  const std::string own = build_id();
  if (own.empty() || hello.build != own)
    throw Error(ErrorCode::invalid_argument, "this worker is another build of the program (" + own +
                                                 ", not " + hello.build +
                                                 "), so its callables may differ");
  return *served_.dataset;
}

void Session::begin_run(StateReader& head) {
  const Hello hello = decode_hello(head);
  if (hello.version != version())
    throw Error(ErrorCode::invalid_argument,
                "this worker is Penstock " + version() + ", the run is of " + hello.version);
  const Dataset dataset = dataset_for(hello);
  RunOptions options;
  options.seed = hello.seed;
  options.threads = served_.options.threads;
  options.memory_bytes = served_.options.memory_bytes;
  options.retries = hello.retries > 1000 ? 1000 : static_cast<int>(hello.retries) - 1;
  options.retry_ms = static_cast<int>(std::min<std::uint64_t>(hello.retry_ms, 1000));
  if (hello.retries_unavailable != 0) options.on_error = OnError::retry;
  Plan plan = compile(dataset, options);
  if (hello.shards > 0) {
    if (hello.shard >= hello.shards || hello.shards > INT32_MAX || !plan.rows())
      throw Error(ErrorCode::invalid_argument, "the worker's graph has no such shard");
    plan = compile(
        plan.shard(static_cast<std::int64_t>(hello.shards), static_cast<std::int64_t>(hello.shard)),
        options);
  }
  StateReader theirs(hello.fingerprint);
  try {
    (void)Fingerprint(*plan.root()).check(theirs);
  } catch (const Error& error) {
    throw Error(error.code(), "the worker has another graph, or other data: " + error.cause());
  }
  meet_names(plan);
  run_ = std::make_unique<Run>(std::move(plan), options);
  programs_ =
      std::make_unique<ProgramsByNumber>(run_->state().plan(), run_->stages(), run_->memory());
  const std::uint64_t most_waiting = run_->state().plan().shares().messages;
  {
    const MutexLock lock(mutex_);
    told_.resize(run_->state().plan().stages().size());
    most_waiting_ = most_waiting;
  }
  share_memory();
  lz4_ = hello.lz4 != 0 && has_lz4() && checks_;
  if (served_.cache) graph_ = served_.cache->join(graph_key(run_->state().plan(), hello));
  send(encode(Welcome{.threads = static_cast<std::uint64_t>(run_->state().threads()),
                      .bytes = most_waiting,
                      .lz4 = has_lz4() ? hello.lz4 : 0}));
}

void Session::make(Incoming& message) {
  const std::uint64_t id = message.head().get();
  const auto work = std::make_shared<Work>(making(), run_->activity(), shared_memory_);
  work->id = id;
  try {
    begin(work, message);
  } catch (const Error& error) {
    const bool not_here = error.code() == ErrorCode::not_found;
    if (not_here || error.code() == ErrorCode::resource_exhausted)
      return answer_without(work,
                            not_here ? AnswerHead::What::cannot : AnswerHead::What::no_memory);
    finish(work);
    throw;
  } catch (...) {
    finish(work);
    throw;
  }
}

void Session::begin(const WorkPtr& work, Incoming& message) {
  Memory& memory = run_->memory();
  if (!work->charge_of_message.take(memory, message.came()))
    throw memory.no_room_for(message.came());
  work->asked = decode_items(message, *programs_, run_->state().plan(), work->context,
                             served_.cache != nullptr);
  const Asked& asked = work->asked;
  const PlannedStage& stage = run_->state().plan().stages()[asked.stage];
  work->count = asked.items.size();
  // Callables have memory of their own, of which only the results are known in advance.
  const std::size_t kept =
      asked.rows ? std::min(work->count, kMostKept) : work->count * (served_.cache ? 2 : 1);
  const std::uint64_t bytes = saturating_sum(kept * sizeof(WorkItem), asked.element_bytes);
  if (!work->charge_of_work.take(memory, bytes)) throw memory.no_room_for(bytes);
  // The run bounds how fast its groups grow.
  work->sizes.by_time.store(kMostInGroup, std::memory_order_relaxed);
  work->sizer.emplace(kMostInGroup, run_->state().plan().shares().group, work->sizes);
  if (asked.rows) {
    leave_unfinished(*work, stage);
    work->slot = std::make_unique<Slot>(*work->layout, work->allocator);
  }
  const SegmentWork segment{run_->stages().owner(*stage.node), asked.key,
                            work->layout ? &*work->layout : nullptr, *work->sizer};
  GroupListener& listener = *this;
  work->runner = std::make_unique<LocalRunner>(LocalRunner::Services{making(), run_->executors()},
                                               segment, listener);
  {
    const MutexLock lock(mutex_);
    if (under_way_.size() >= kMostUnderWay) malformed("too many groups at once");
    under_way_[&work->group] = work;
  }
  if (served_.cache) return share(work);
  work->group.items = std::move(work->asked.items);
  work->group.count = work->count;
  if (asked.rows)
    work->group.places = {{work->slot.get(), 0, 0, 0, static_cast<std::uint32_t>(work->count)}};
  start(*work);
}

GroupContext::Services Session::making() const noexcept {
  const RunState& state = run_->state();
  return {run_->memory(), run_->retry(), state.cancelled_flag(), state.options().trust_data};
}

// REQUIRES: the group has its items and its places.
void Session::start(Work& work) {
  Group& group = work.group;
  group.alike = all_alike(group.all_items());
  work.runner->prepare(group);
  if (group.read_bytes > 0) {
    if (!run_->memory().reserve(group.read_bytes))
      throw run_->memory().no_room_for(group.read_bytes);
    group.context->promise(group.read_bytes);
  }
  work.runner->begin(group);
}

// Results are made where a run of this machine can read them.
void Session::share_memory() {
  {
    const MutexLock lock(mutex_);
    if (link_ == nullptr || !link_->on_this_machine()) return;
  }
  checks_ = false;
  const std::size_t bytes =
      std::min<std::uint64_t>(kMostShared, run_->state().plan().shares().messages);
  if (!run_->memory().charge(bytes)) return;
  shared_memory_ = SharedMemory::make(bytes);
  if (!shared_memory_) return run_->memory().discharge(bytes);
  const MutexLock lock(mutex_);
  if (link_ != nullptr) link_->share(shared_memory_);
}

// Values that are computed from u8 are left to the run, because they take more bytes.
void Session::leave_unfinished(Work& work, const PlannedStage& stage) {
  const auto rows = static_cast<std::int64_t>(work.count);
  Asked& asked = work.asked;
  const SlotLayout finished(stage.batches->element, rows);
  work.pixels = pixels_of(asked.items, finished);
  work.layout.emplace(spec_of(work.pixels, stage.batches->element), rows);
  if (std::ranges::none_of(work.pixels, [](const auto& of) { return of.has_value(); })) return;
  const Program& program =
      programs_->unfinished(*asked.items.front().program, asked.stage, work.pixels);
  for (ElementRef& item : asked.items) item.program = ProgramPtr(&program);
  // A group of several programs keeps elements of the same graph that are finished.
  for (ElementKey& key : asked.keys) {
    const std::array<std::uint64_t, 3> all{key.low, key.high, 1};
    key = element_key(all.data(), sizeof all);
  }
}

Session::WorkPtr Session::under_way(Group& group) noexcept {
  const MutexLock lock(mutex_);
  return under_way_.at(&group);
}

// Groups under way keep the session alive, so this erases the group last.
void Session::finish(const WorkPtr& work) noexcept {
  if (work->awaited) withdraw(*work);
  const MutexLock lock(mutex_);
  if (under_way_.erase(&work->group) > 0 && work->awaited) --shared_;
}

void Session::group_done(Group& group) noexcept {
  const WorkPtr work = under_way(group);
  if (!work->awaited || made_some(*work)) complete(work);
}

void Session::complete(const WorkPtr& work) noexcept {
  AnswerHead head{.id = work->id, .what = AnswerHead::What::no_memory};
  try {
    if (!stopping() && !work->broken) {
      if (work->slot) {
        head.what = AnswerHead::What::rows;
        encode_rows(work->count, work->failed(), *work->slot, work->pixels, work->results);
      } else {
        std::uint64_t bytes = 0;
        for (const WorkItem& item : work->values())
          bytes += item.status.ok() ? payload_bytes(item.element) + 1024 : 0;
        if (work->charge.take(run_->memory(), bytes)) {
          head.what = AnswerHead::What::values;
          encode_values(work->values(), work->results);
        }
      }
    }
    head.wanted = work->sizer->size();
    head.bytes = work->group.context ? work->group.context->allocated() : 0;
    if (work->awaited && !work->whole) {
      // Elements that were there already say nothing about the best size of a group.
      if (work->computed == 0) head.wanted = 0;
      head.bytes = work->allocated / std::max<std::uint64_t>(1, work->computed) * work->count;
    }
  } catch (...) {
    head.what = AnswerHead::What::no_memory;
    work->results = Results();
  }
  if (head.what != AnswerHead::What::no_memory) {
    head.shared = work->had;
    served_.groups.fetch_add(1, std::memory_order_relaxed);
    served_.elements.fetch_add(work->count, std::memory_order_relaxed);
  }
  try {
    answer(work, std::move(head));
  } catch (...) {
    close();
  }
  finish(work);
}

// For a moment, the compressed and the original bytes are both in memory. If there is no room for
// both, the values are sent uncompressed.
void Session::pack_values(Work& work, AnswerHead& head) {
  std::vector<std::span<const std::byte>>& values = work.results.values;
  std::size_t bytes = 0;
  for (const auto& piece : values) bytes += piece.size();
  if (bytes < kLeastToPack || !work.charge_of_packed.take(run_->memory(), most_packed(bytes)))
    return;
  std::optional<Packed> packed;
  try {
    packed = pack(values);
  } catch (const std::bad_alloc&) {
    return;
  }
  if (!packed) return;
  work.packed = std::move(packed->bytes);
  head.unpacked = bytes;
  head.blocks = std::move(packed->sizes);
  values = {std::span<const std::byte>(work.packed)};
}

void Session::answer(const WorkPtr& work, AnswerHead head) {
  if (checks_) head.checksum = checksum_of(work->results.head, work->results.values);
  if (lz4_) pack_values(*work, head);
  const auto took = Clock::now() - work->began;
  head.work_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
  head.stages = work_since_last(head.retried);
  head.results = std::move(work->results.head);
  StateWriter bytes;
  put(bytes, head);
  send(message(bytes.bytes(), work->results.values, work));
}

std::vector<StageWork> Session::work_since_last(std::uint64_t& retried) {
  std::vector<StageWork> result;
  const MutexLock lock(mutex_);
  const std::uint64_t retries = run_->retry().count();
  retried = retries - std::exchange(told_retries_, retries);
  for (std::size_t i = 0; i < told_.size(); ++i) {
    const StageCounters& counters =
        *run_->stages().counters(*run_->state().plan().stages()[i].node);
    const StageWork now{.stage = i,
                        .items = counters.items.load(std::memory_order_relaxed),
                        .bytes = counters.bytes.load(std::memory_order_relaxed),
                        .padding_bytes = counters.padding_bytes.load(std::memory_order_relaxed),
                        .busy_ns = counters.busy_ns.load(std::memory_order_relaxed),
                        .apart_ns = counters.apart_ns.load(std::memory_order_relaxed)};
    StageWork& told = told_[i];
    if (now.items == told.items && now.busy_ns == told.busy_ns) continue;
    result.push_back({.stage = i,
                      .items = now.items - told.items,
                      .bytes = now.bytes - told.bytes,
                      .padding_bytes = now.padding_bytes - told.padding_bytes,
                      .busy_ns = now.busy_ns - told.busy_ns,
                      .apart_ns = now.apart_ns - told.apart_ns});
    told = now;
  }
  return result;
}

void Session::group_blocked(Group& group) noexcept {
  const WorkPtr work = under_way(group);
  if (!work->awaited) return answer_without(work, AnswerHead::What::no_memory);
  {
    const MutexLock lock(mutex_);
    work->broken = true;
  }
  if (made_some(*work)) complete(work);
}

void Session::group_lost(Group& group) noexcept {
  group_blocked(group);
}

void Session::answer_without(const WorkPtr& work, AnswerHead::What what) noexcept {
  work->results = Results();
  try {
    answer(work, {.id = work->id, .what = what});
  } catch (...) {
    close();
  }
  finish(work);
}

void Session::Awaited::told(std::size_t item, KeptPtr kept) noexcept {
  {
    const MutexLock lock(mutex_);
    told_[item] = std::move(kept);
    numbers_.push_back(static_cast<std::uint32_t>(item));
  }
  const MutexLock lock(bell_->mutex);
  if (bell_->session == nullptr) return;
  {
    const MutexLock session_lock(bell_->session->mutex_);
    bell_->session->to_tend_ = true;
  }
  bell_->session->changed_.notify_all();
}

std::vector<Session::Awaited::Told> Session::Awaited::take() {
  std::vector<Told> all;
  const MutexLock lock(mutex_);
  all.reserve(numbers_.size());
  for (const std::uint32_t item : numbers_) all.push_back({item, std::move(told_[item])});
  numbers_.clear();
  return all;
}

// The thread that takes messages continues a group as its elements come. While some elements of the
// group are being made, they belong to the runner alone.
void Session::share(const WorkPtr& work) {
  work->shares.assign(work->count, Work::Share::settled);
  if (!work->slot) {
    work->answers.resize(work->count);
    work->kept.resize(work->count);
  }
  {
    const MutexLock lock(mutex_);
    work->to_do.reserve(work->count);
    work->awaited = std::make_shared<Awaited>(bell_, work->count);
    ++shared_;
  }
  std::vector<std::uint32_t> all(work->count);
  std::iota(all.begin(), all.end(), 0U);
  ask(*work, all);
  resume(work, 0);
}

void Session::ask(Work& work, std::span<const std::uint32_t> items) {
  using Found = ElementCache::Found;
  const auto answers = served_.cache->look(graph_, work.asked.keys, items, work.awaited);
  // Remember all claimed elements before anything can throw.
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Found found = answers[i].found;
    work.shares[items[i]] = found == Found::mine     ? Work::Share::mine
                            : found == Found::others ? Work::Share::others
                                                     : Work::Share::settled;
  }
  std::vector<std::uint32_t> to_do;
  std::size_t waits_for = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool there = answers[i].found == Found::kept && place(work, items[i], answers[i].kept);
    work.had += there ? 1 : 0;
    waits_for += answers[i].found == Found::others ? 1 : 0;
    if (!there && answers[i].found != Found::others) to_do.push_back(items[i]);
  }
  const MutexLock lock(mutex_);
  work.to_do.insert(work.to_do.end(), to_do.begin(), to_do.end());
  work.waits_for += waits_for;
}

// Puts an element in its place. Returns false if it does not fit there, although it did for its
// maker.
bool Session::place(Work& work, std::uint32_t item, const KeptPtr& kept) {
  if (work.slot) {
    WorkItem row;
    row.element = kept->element;
    return work.slot->store_fitting({&row, 1}, item) == 1;
  }
  WorkItem& answer = work.answers[item];
  answer.element = kept->element;
  answer.keep = kept->keep;
  answer.key = kept->key;
  work.kept[item] = kept;
  return true;
}

// `settled` of the awaited elements are in their places or must be made now.
void Session::resume(const WorkPtr& work, std::size_t settled) {
  std::vector<std::uint32_t> next;
  {
    const MutexLock lock(mutex_);
    work->waits_for -= settled;
    if (work->making) return;
    if (work->to_do.empty() && work->waits_for > 0) return;
    work->over = work->to_do.empty();
    work->making = !work->over;
    next.swap(work->to_do);
  }
  if (next.empty()) return complete(work);
  try {
    make_some(*work, next);
  } catch (...) {
    const MutexLock lock(mutex_);
    work->making = false;
    throw;
  }
}

void Session::make_some(Work& work, const std::vector<std::uint32_t>& items) {
  Group& group = work.group;
  group.drop_results();
  group.failures.clear();
  group.outliers.clear();
  group.parts.clear();
  group.items.clear();
  for (const std::uint32_t item : items) group.items.push_back(work.asked.items[item]);
  group.count = items.size();
  group.places.clear();
  if (work.slot) group.places = places_of(*work.slot, items);
  work.made = items;
  work.whole = items.size() == work.count;
  {
    const MutexLock lock(mutex_);
    work.to_do.reserve(work.count);
  }
  start(work);
}

// Passes the elements that were made to other runs, and adds them to the results. Returns true if
// the group is complete.
bool Session::made_some(Work& work) noexcept {
  bool broken = false;
  {
    const MutexLock lock(mutex_);
    broken = work.broken;
  }
  const bool none = broken || stopping();
  if (!none) {
    give_to_others(work);
    try {
      keep_results(work);
    } catch (...) {
      broken = true;
    }
  }
  for (const std::uint32_t item : work.made) {
    if (work.shares[item] != Work::Share::mine) continue;
    work.shares[item] = Work::Share::settled;
    served_.cache->fail(graph_, work.asked.keys[item]);
  }
  {
    const MutexLock lock(mutex_);
    work.making = false;
    work.broken = work.broken || broken;
    work.over = work.waits_for == 0 && work.to_do.empty();
    if (work.over) return true;
    to_tend_ = true;
    changed_.notify_all();  // once the lock is free, the session may be destroyed
  }
  return false;
}

void Session::give_to_others(Work& work) noexcept {
  for (std::size_t i = 0; i < work.made.size(); ++i) {
    const std::uint32_t item = work.made[i];
    if (work.shares[item] != Work::Share::mine) continue;
    try {
      if (work.slot) {
        if (failed(work.group, i)) continue;
        const Element row = element_at(*work.slot, item);
        work.shares[item] = Work::Share::settled;
        served_.cache->give(graph_, work.asked.keys[item], row, true, 0);
      } else {
        const WorkItem& made = work.group.work[i];
        if (!made.status.ok()) continue;
        work.shares[item] = Work::Share::settled;
        served_.cache->give(graph_, work.asked.keys[item], made.keep ? made.element : Element(),
                            made.keep, made.key);
      }
    } catch (...) {
      return;  // no memory: waiting runs make the rest themselves
    }
  }
}

void Session::keep_results(Work& work) {
  work.computed += work.made.size();
  work.allocated += work.group.context ? work.group.context->allocated() : 0;
  if (work.whole) return;
  for (auto& [item, status] : work.group.failures)
    work.failures.emplace_back(work.made[item], std::move(status));
  std::ranges::sort(work.failures, {}, &Failures::value_type::first);
  if (work.slot) return;
  for (std::size_t i = 0; i < work.made.size(); ++i) {
    WorkItem& made = work.group.work[i];
    WorkItem& answer = work.answers[work.made[i]];
    answer.element = std::move(made.element);
    answer.status = std::move(made.status);
    answer.keep = made.keep;
    answer.key = made.key;
    made.status = Status();
  }
}

void Session::tend() noexcept {
  std::vector<WorkPtr> all;
  try {
    const MutexLock lock(mutex_);
    for (const auto& [group, work] : under_way_)
      if (work->awaited && !work->over) all.push_back(work);
  } catch (...) {
    return;  // it will be checked again
  }
  for (const WorkPtr& work : all) {
    try {
      tend(work);
    } catch (...) {
      give_up(work);
    }
  }
}

void Session::tend(const WorkPtr& work) {
  bool broken = false;
  {
    const MutexLock lock(mutex_);
    if (work->over) return;
    if (work->making && work->waits_for == 0) return;
    broken = work->broken;
  }
  if (broken || stopping()) return give_up(work);
  std::size_t settled = 0;
  std::vector<std::uint32_t> again;
  for (const Awaited::Told& told : work->awaited->take()) {
    if (work->shares[told.item] != Work::Share::others) continue;
    work->shares[told.item] = Work::Share::settled;
    ++settled;
    if (told.kept && place(*work, told.item, told.kept))
      ++work->had;
    else
      again.push_back(told.item);
  }
  if (Clock::now() - work->began < kMostWait) {
    if (!again.empty()) ask(*work, again);
    return resume(work, settled);
  }
  for (std::uint32_t item = 0; item < work->count; ++item) {
    if (work->shares[item] != Work::Share::others) continue;
    work->shares[item] = Work::Share::settled;
    served_.cache->forget(graph_, work->asked.keys[item], *work->awaited);
    ++settled;
    again.push_back(item);
  }
  {
    const MutexLock lock(mutex_);
    work->to_do.insert(work->to_do.end(), again.begin(), again.end());
  }
  resume(work, settled);
}

// Stops waiting for other runs. Elements that are being made are completed.
void Session::give_up(const WorkPtr& work) noexcept {
  for (std::uint32_t item = 0; item < work->count; ++item) {
    if (work->shares[item] != Work::Share::others) continue;
    work->shares[item] = Work::Share::settled;
    served_.cache->forget(graph_, work->asked.keys[item], *work->awaited);
  }
  {
    const MutexLock lock(mutex_);
    work->broken = true;
    work->waits_for = 0;
    work->to_do.clear();
    if (work->making) return;
    work->over = true;
  }
  complete(work);
}

void Session::withdraw(Work& work) noexcept {
  for (std::uint32_t item = 0; item < work.shares.size(); ++item) {
    const Work::Share share = std::exchange(work.shares[item], Work::Share::settled);
    if (share == Work::Share::mine) served_.cache->fail(graph_, work.asked.keys[item]);
    if (share == Work::Share::others)
      served_.cache->forget(graph_, work.asked.keys[item], *work.awaited);
  }
}

}  // namespace penstock::remote
