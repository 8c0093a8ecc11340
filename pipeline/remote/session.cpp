#include "pipeline/remote/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <penstock/log.h>
#include <penstock/start_thread.h>
#include <penstock/version.h>

#include "pipeline/core/sizes.h"
#include "pipeline/core/thread_name.h"
#include "pipeline/engine/make/local_runner.h"
#include "pipeline/remote/packed.h"
#include "pipeline/remote/session_work.h"
#include "pipeline/remote/transport.h"
#include "pipeline/stage/fingerprint.h"
#include "pipeline/stage/node.h"

namespace penstock::remote {
namespace {

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
    const std::lock_guard lock(bell_->mutex);
    bell_->session = nullptr;
  }
  if (graph_ != 0) served_.cache->leave(graph_);
  run_.reset();
  if (greeted_) --served_.runs;
}

bool Session::idle() const {
  const std::lock_guard lock(mutex_);
  return under_way_.empty() && waiting_.empty() && !taking_;
}

bool Session::awaits_hello() const {
  const std::lock_guard lock(mutex_);
  return !greeted_ && link_ != nullptr;
}

bool Session::over() const {
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  if (link_ != nullptr) link_->close();
}

void Session::received(WireBytes message) noexcept {
  try {
    const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  link_ = nullptr;
  waiting_.clear();
  waiting_bytes_ = 0;
  to_tend_ = true;
  changed_.notify_all();
}

void Session::send(WireBytes message) noexcept {
  const std::lock_guard lock(mutex_);
  if (link_ == nullptr) return;
  try {
    message.owner = std::make_shared<Unread>(unread_, message);
    link_->send(std::move(message));
  } catch (...) {
    link_->close();
  }
}

// Returns false for a run that asks without reading the answers: they would fill the memory.
// REQUIRES: the mutex is held.
bool Session::may_take() const {
  return !waiting_.empty() && unread_->load(std::memory_order_relaxed) <= most_waiting_ + kSlack;
}

// Waits for a message. Returns false if the session ends. Groups that wait for other runs are also
// checked at intervals.
bool Session::wait(const std::stop_token& stop, std::optional<WireBytes>& message, bool& tend) {
  std::unique_lock lock(mutex_);
  taking_ = false;
  const auto some = [this] { return may_take() || to_tend_; };
  while (!some() && !stop.stop_requested()) {
    if (!waiting_.empty()) {
      changed_.wait_for(lock, stop, kUntilRead, some);
    } else if (shared_ == 0) {
      changed_.wait(lock, stop, [&] { return some() || !waiting_.empty() || shared_ > 0; });
    } else if (!changed_.wait_for(lock, stop, kBetweenLooks, some)) {
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
    const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    if (!run_ && std::exchange(greeted_, false)) --served_.runs;
    throw;
  }
}

Dataset Session::dataset_for(const Hello& hello) const {
  if (!hello.graph.empty()) {
    if (!served_.make)
      throw Error(ErrorCode::invalid_argument,
                  "this worker serves the dataset of its own program, and no graph in words");
    return served_.make(hello.graph);
  }
  if (!served_.dataset)
    throw Error(ErrorCode::invalid_argument,
                "this worker serves graphs in words; a run of a program's own callables needs "
                "workers that are the same program");
  const std::string own = build_id();
  if (own.empty() || hello.build != own)
    throw Error(ErrorCode::invalid_argument, "this worker is another build of the program (" + own +
                                                 ", not " + hello.build +
                                                 "), so its callables may do something else");
  return *served_.dataset;
}

namespace {

/// Returns the hash of everything that elements depend on besides their place in the graph.
ElementKey graph_key(const Run& run, const Hello& hello) {
  StateWriter all;
  Fingerprint(*run.plan().root()).save(all);
  all.put_bytes(hello.graph);
  all.put(hello.seed);
  all.put(hello.shards);
  all.put(hello.shard);
  return element_key(all.bytes().data(), all.bytes().size());
}

}  // namespace

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
  programs_ = std::make_unique<ProgramsByNumber>(*run_);
  told_.resize(run_->plan().stages().size());
  {
    const std::lock_guard lock(mutex_);
    most_waiting_ = run_->memory().limit() / 4;
  }
  share_memory();
  lz4_ = hello.lz4 != 0 && has_lz4() && checks_;
  if (served_.cache) graph_ = served_.cache->join(graph_key(*run_, hello));
  send(encode(Welcome{.threads = static_cast<std::uint64_t>(run_->threads()),
                      .bytes = most_waiting_,
                      .lz4 = has_lz4() ? hello.lz4 : 0}));
}

void Session::make(Incoming& message) {
  const std::uint64_t id = message.head().get();
  const auto work = std::make_shared<Work>(*run_, shared_memory_);
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
  work->asked = decode_items(message, *programs_, *run_, work->context, served_.cache != nullptr);
  const Asked& asked = work->asked;
  const PlannedStage& stage = run_->plan().stages()[asked.stage];
  work->count = asked.items.size();
  // Callables have memory of their own, of which only the results are known in advance.
  const std::size_t kept =
      asked.rows ? std::min(work->count, kMostKept) : work->count * (served_.cache ? 2 : 1);
  const std::uint64_t bytes = saturating_sum(kept * sizeof(WorkItem), asked.element_bytes);
  if (!work->charge_of_work.take(memory, bytes)) throw memory.no_room_for(bytes);
  // The run bounds how fast its groups grow.
  work->sizes.by_time.store(kMostInGroup, std::memory_order_relaxed);
  work->sizer.emplace(kMostInGroup, memory.limit() / 8, work->sizes);
  if (asked.rows) {
    leave_unfinished(*work, stage);
    work->slot = std::make_unique<Slot>(*work->layout, work->allocator);
  }
  const SegmentWork segment{*stage.node, asked.key, work->layout ? &*work->layout : nullptr,
                            *work->sizer};
  work->runner = make_local_runner(*run_, segment, *this);
  {
    const std::lock_guard lock(mutex_);
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

}  // namespace penstock::remote
