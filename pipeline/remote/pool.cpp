#include "pipeline/remote/pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include <penstock/internal/start_thread.h>
#include <penstock/log.h>
#include <penstock/version.h>

#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/run/stage_services.h"
#include "pipeline/remote/local_link.h"
#include "pipeline/remote/packed.h"
#include "pipeline/remote/remote_runner.h"
#include "pipeline/remote/transport.h"
#include "pipeline/stage/fingerprint.h"

namespace penstock::remote {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostBytesUnderWay = std::size_t{32} << 20;

WireBytes hello_of(const RunState& run) {
  const RunOptions& options = run.options();
  StateWriter fingerprint;
  Fingerprint(*run.plan().root()).save(fingerprint);
  return encode(Hello{.version = version(),
                      .build = build_id(),
                      .graph = options.workers.graph,
                      .fingerprint = fingerprint.take(),
                      .seed = options.seed,
                      .retries = static_cast<std::uint64_t>(options.retries + 1),
                      .retry_ms = static_cast<std::uint64_t>(options.retry_ms),
                      .retries_unavailable = options.on_error == OnError::retry ? 1U : 0U,
                      .shards = static_cast<std::uint64_t>(options.workers.shards),
                      .shard = static_cast<std::uint64_t>(options.workers.shard),
                      .lz4 = options.workers.wire == WorkerWire::lz4 ? 1U : 0U});
}

std::size_t threads_here(const RunState& run) {
  const int asked = run.options().workers.local_threads;
  return static_cast<std::size_t>(asked < 0 ? run.threads() : std::min(asked, run.threads()));
}

/// Returns the number of groups for each thread, if one more is added.
double load(std::size_t groups, std::size_t threads) noexcept {
  return static_cast<double>(groups + 1) / static_cast<double>(threads);
}
double load_of(const Connection& connection) noexcept {
  return load(connection.asked.size(), static_cast<std::size_t>(connection.stats.threads));
}

bool follows(const WorkerOptions& options) {
  return options.addresses.size() == 1 && options.addresses[0].starts_with("etcd://");
}

constexpr milliseconds kTick{10};
constexpr milliseconds kBetweenTries{250};
constexpr milliseconds kLeastPatience{30};
constexpr milliseconds kFirstPatience{500};
constexpr int kMostTries = 3;

/// Returns true if no later try can reach the worker, such as after a wrong address.
bool is_mistake(const Status& connected) noexcept {
  if (connected.ok()) return false;
  const ErrorCode code = connected.error().code();
  return code == ErrorCode::invalid_argument || code == ErrorCode::not_found;
}

std::string in_ms(milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

}  // namespace

WorkerPool::WorkerPool(const RemoteServices& services)
    : run_(services),
      options_(run_.state.options().workers),
      most_bytes_(std::min<std::size_t>(
          WorkerLink::kMostBytesOfMessage / 2,
          std::max<std::size_t>(run_.state.plan().shares().messages, 1 << 20))),
      threads_here_(threads_here(run_.state)),
      programs_(run_.stages),
      transport_(worker_transport()),
      hello_(hello_of(run_.state)),
      last_up_(Clock::now()) {
  meet_names(run_.state.plan());
  if (options_.timeout < milliseconds(10))
    throw Error(ErrorCode::invalid_argument, "the timeout of workers must be at least 10 ms");
  if (options_.wire == WorkerWire::lz4 && !has_lz4())
    throw Error(ErrorCode::invalid_argument,
                "this build of Penstock has no LZ4 (liblz4) to compress what workers send");
}

// Not in the constructor: links tell the pool of their loss until they are destroyed, which the
// destructor does before it destroys what they tell it.
void WorkerPool::start() {
  if (follows(options_)) {
    follow_ = transport_.watch(options_.addresses[0], options_.security,
                               [this](const std::vector<std::string>& found) {
                                 const MutexLock lock(mutex_);
                                 wanted_ = found;
                                 wanted_changed_ = true;
                               });
  } else {
    std::vector<Connection*> all;
    {
      const MutexLock lock(mutex_);
      for (const std::string& address : options_.addresses) {
        connections_.push_back(
            std::make_unique<Connection>(static_cast<ConnectionOwner&>(*this), address));
        all.push_back(connections_.back().get());
      }
      for (Connection* connection : all) begin_connecting(*connection);
    }
    for (Connection* connection : all) {
      Todo todo;
      const Status connected = connect(*connection, todo);
      if (is_mistake(connected)) throw Error(connected.error());  // in place of a warning
      carry_out(std::move(todo));
    }
  }
  thread_ = start_thread("watching workers", [this](const std::stop_token& stop) { watch(stop); });
}

WorkerPool::~WorkerPool() {
  thread_ = {};
  follow_.reset();
  // The listeners of the links take the lock, so the links are destroyed without it.
  std::vector<std::unique_ptr<WorkerLink>> links;
  {
    const MutexLock lock(mutex_);
    for (const auto& connection : connections_) {
      links.push_back(std::move(connection->link));
      links.push_back(std::move(connection->old_link));
    }
  }
  links.clear();
}

std::unique_ptr<GroupRunner> WorkerPool::runner(const SegmentWork& segment, const MakeLocal& local,
                                                GroupListener& listener) {
  return std::make_unique<RemoteRunner>(*this, run_, segment, local, listener);
}

RemoteWork::Figures WorkerPool::figures() const {
  const MutexLock lock(mutex_);
  Figures figures;
  for (const auto& connection : connections_) {
    WorkerStats stats = connection->stats;
    stats.connected = connection->state == Connection::State::up;
    if (stats.groups > 0)
      stats.round_trip_s = connection->round_trips_s / static_cast<double>(stats.groups);
    if (connection->asks > 0)
      stats.groups_at_once =
          std::clamp<std::size_t>(connection->most_bytes * connection->asks /
                                      std::max<std::size_t>(1, connection->asked_bytes),
                                  1, std::max<std::size_t>(1, connection->most_groups));
    figures.workers.push_back(std::move(stats));
  }
  figures.groups_of_workers = groups_there_;
  figures.groups_made_here = groups_here_;
  return figures;
}

void WorkerPool::add(Job job) {
  Todo todo;
  {
    const MutexLock lock(mutex_);
    job.id = next_id_++;
    line_.push_back(std::move(job));
    hand_out(todo);
  }
  carry_out(std::move(todo));
}

void WorkerPool::done_here() noexcept {
  Todo todo;
  {
    const MutexLock lock(mutex_);
    --here_;
    hand_out(todo);
  }
  carry_out(std::move(todo));
}

void WorkerPool::count_here() noexcept {
  const MutexLock lock(mutex_);
  ++here_;
  ++groups_here_;
}

void WorkerPool::drop_all(const JobOwner& owner) noexcept {
  for (;;) {
    Job job;
    {
      const MutexLock lock(mutex_);
      const auto waits = std::ranges::find(line_, &owner, &Job::owner);
      const auto asked = std::ranges::find_if(
          under_way_, [&](const auto& entry) { return entry.second.owner == &owner; });
      if (waits != line_.end()) {
        job = std::move(*waits);
        line_.erase(waits);
      } else if (asked != under_way_.end()) {
        job = std::move(asked->second);
        under_way_.erase(asked);
      } else {
        return;
      }
    }
    job.owner->drop(*job.group);
  }
}

bool WorkerPool::has_room_here() const noexcept {
  return threads_here_ > 0 && here_ < 2 * threads_here_ + 2;
}

// Returns the worker with the lowest load for each thread, among those that have room.
Connection* WorkerPool::next_worker(const Job& job, const Connection* but) {
  const std::size_t bytes = job.body->head.size() + job.body->values.size() + job.answer_bytes;
  Connection* best = nullptr;
  for (const auto& connection : connections_) {
    if (connection->state != Connection::State::up || connection.get() == but) continue;
    if (connection->asked.size() >= connection->most_groups || connection->asked.contains(job.id))
      continue;
    if (!connection->asked.empty() && connection->bytes + bytes > connection->most_bytes) continue;
    if (best == nullptr || load_of(*connection) < load_of(*best)) best = connection.get();
  }
  return best;
}

void WorkerPool::hand_out(Todo& todo) {
  while (!line_.empty()) {
    Job& job = line_.front();
    Connection* const worker = next_worker(job);
    const bool here = has_room_here();
    if (!here && worker == nullptr) return;
    if (worker == nullptr || (here && load(here_, threads_here_) <= load_of(*worker))) {
      ++here_;
      ++groups_here_;
      todo.here.push_back(std::move(job));
      line_.pop_front();
      continue;
    }
    Job sent = std::move(job);
    line_.pop_front();
    send(*worker, sent);
    under_way_.emplace(sent.id, std::move(sent)).first->second.tries = 1;
  }
}

void WorkerPool::send(Connection& connection, const Job& job) {
  for (; connection.programs < job.body->programs; ++connection.programs) {
    StateWriter head;
    head.put(static_cast<std::uint64_t>(Kind::program));
    programs_.define(connection.programs, head);
    connection.link->send(message(head.bytes()));
  }
  StateWriter head;
  head.put(static_cast<std::uint64_t>(Kind::ask));
  head.put(job.id);
  WireBytes ask = message(head.take() + job.body->head,
                          {std::span<const std::byte>(job.body->values)}, job.body);
  const std::size_t bytes = ask.size() + job.answer_bytes;
  connection.asked[job.id] = {Clock::now(), bytes};
  connection.bytes += bytes;
  connection.asked_bytes += bytes;
  ++connection.asks;
  connection.stats.sent_bytes += ask.size();
  connection.link->send(std::move(ask));
}

void WorkerPool::carry_out(Todo todo) noexcept {
  for (const auto& [once, text] : todo.warnings) {
    if (once.empty())
      log(LogLevel::warning, text);
    else
      log_once(LogLevel::warning, once, text);
  }
  for (const Job& job : todo.here) job.owner->make_here(*job.group);
  for (const Job& job : todo.failed) job.owner->fail(*job.group, todo.why);
}

void WorkerPool::ready(Connection& connection, const Welcome& welcome) noexcept {
  Todo todo;
  {
    const MutexLock lock(mutex_);
    if (connection.state != Connection::State::connecting) return;
    connection.state = Connection::State::up;
    connection.stats.problem.clear();
    connection.stats.threads =
        static_cast<int>(std::clamp<std::uint64_t>(welcome.threads, 1, 4096));
    connection.most_groups = 2 * static_cast<std::size_t>(connection.stats.threads) + 2;
    connection.most_bytes = std::min<std::size_t>(welcome.bytes, kMostBytesUnderWay);
    last_up_ = Clock::now();
    count_capacity();
    hand_out(todo);
  }
  if (options_.wire == WorkerWire::lz4 && welcome.lz4 == 0)
    log_once(
        LogLevel::warning, "no LZ4 at " + connection.address(),
        "the input worker " + connection.address() + " has no LZ4: its answers are not compressed");
  run_.waker.notify();  // more may be handed over
  carry_out(std::move(todo));
}

void WorkerPool::count_capacity() noexcept {
  std::size_t all = 0;
  std::size_t bytes = SIZE_MAX;
  for (const auto& connection : connections_) {
    if (connection->state != Connection::State::up) continue;
    all += connection->most_groups;
    bytes = std::min(
        bytes, connection->most_bytes / (static_cast<std::size_t>(connection->stats.threads) + 2));
  }
  capacity_.store(all, std::memory_order_relaxed);
  bytes_of_group_.store(bytes, std::memory_order_relaxed);
}

// Records that an answer has come. Returns false if it was not requested.
bool WorkerPool::settle(Connection& connection, std::uint64_t id) {
  const auto sent = connection.asked.find(id);
  if (sent == connection.asked.end()) return false;
  connection.bytes -= sent->second.bytes;
  connection.asked.erase(sent);
  return true;
}

void WorkerPool::answered(Connection& connection, AnswerHead head, Incoming& message) noexcept {
  const std::size_t bytes = message.left() + head.results.size();
  if (!connection.on_this_machine && head.checksum != message.checksum(head.results))
    return gone(connection, Status(ErrorCode::data_loss, "an answer's checksum differs"), true);
  const Clock::time_point now = Clock::now();
  Todo todo;
  Job job;
  bool wrong = false;
  {
    const MutexLock lock(mutex_);
    if (connection.state != Connection::State::up && connection.state != Connection::State::leaving)
      return;  // it was given up, and its groups went to others
    const auto sent = connection.asked.find(head.id);
    const Clock::time_point asked_at = sent == connection.asked.end() ? now : sent->second.at;
    wrong = !settle(connection, head.id);
    connection.stats.received_bytes += message.came();
    connection.stats.unpacked_bytes += bytes;
    const auto found = under_way_.find(head.id);
    if (!wrong && found == under_way_.end()) {  // another was faster, or it is no longer wanted
      ++connection.stats.late;
      const auto known =
          std::ranges::find(sums_, head.id, &std::pair<std::uint64_t, std::uint64_t>::first);
      if (known != sums_.end() && known->second != head.checksum && !connection.on_this_machine)
        todo.warnings.emplace_back("", "the input worker " + connection.address() +
                                           " made different bytes of a group than another worker");
      hand_out(todo);
    } else if (!wrong) {
      job = std::move(found->second);
      under_way_.erase(found);
      const double took = std::chrono::duration<double>(now - asked_at).count();
      usual_s_ = usual_s_ == 0 ? took : 0.9 * usual_s_ + 0.1 * took;
      const double on_the_way = std::max(0.0, took - 1e-9 * static_cast<double>(head.work_ns));
      connection.round_trips_s += on_the_way;
      double& least = connection.stats.least_round_trip_s;
      // The round trip of a small answer says little about the time of other answers.
      if (2 * bytes * (connection.stats.groups + 1) >= connection.stats.unpacked_bytes)
        least = least > 0 ? std::min(least, on_the_way) : on_the_way;
      if (!connection.on_this_machine) sums_.emplace_back(head.id, head.checksum);
      if (sums_.size() > kMostRemembered) sums_.pop_front();
      if (head.what == AnswerHead::What::rows || head.what == AnswerHead::What::values) {
        ++connection.stats.groups;
        connection.stats.elements += job.group->count;
        connection.stats.shared += std::min<std::uint64_t>(head.shared, job.group->count);
        for (const StageWork& work : head.stages)
          connection.stats.busy_s += 1e-9 * static_cast<double>(work.busy_ns);
        ++groups_there_;
      } else {
        ++connection.stats.returned;
        ++here_;
        ++groups_here_;
        if (head.what == AnswerHead::What::no_memory)
          connection.most_bytes = std::max(connection.most_bytes / 2, bytes);
      }
      hand_out(todo);
    }
  }
  if (job.group != nullptr) {
    if (head.what == AnswerHead::What::cannot)
      for (const std::uint64_t program : job.body->used) programs_.forbid(program);
    if (head.what == AnswerHead::What::cannot || head.what == AnswerHead::What::no_memory) {
      job.owner->make_here(*job.group);
    } else if (!job.owner->take(*job.group, head, message)) {
      const MutexLock lock(mutex_);
      wrong = true;
      job.tries = 0;
      --groups_there_;
      line_.push_front(std::move(job));
    }
  }
  carry_out(std::move(todo));
  if (!wrong) return;
  gone(connection, Status(ErrorCode::data_loss, "its answers do not match the requests"), true);
}

void WorkerPool::watch(const std::stop_token& stop) noexcept {
  while (!stop.stop_requested()) {
    try {
      {
        const MutexLock lock(mutex_);
        changed_.wait_for(mutex_, stop, kTick);
      }
      if (stop.stop_requested()) return;
      look(Clock::now());
    } catch (...) {
      // If there is no memory now, the next round does the work.
    }
  }
}

void WorkerPool::look(Clock::time_point now) {
  Todo todo;
  std::vector<std::unique_ptr<WorkerLink>> over;
  std::vector<Connection*> again;
  MutexLock lock(mutex_);
  if (std::exchange(wanted_changed_, false)) set_addresses(wanted_);
  for (const auto& connection : connections_) {
    if (connection->state == Connection::State::leaving && connection->asked.empty() && follow_)
      lose(*connection, Status(), true, todo);
    // Wait until the old link is gone, because it may still deliver messages.
    if (connection->old_link != nullptr)
      over.push_back(std::move(connection->old_link));
    else if (connection->state == Connection::State::down && now >= connection->next_try)
      again.push_back(connection.get());
  }
  for (Connection* const connection : again) begin_connecting(*connection);
  hedge(now, todo);
  give_up_without_workers(now, todo);
  hand_out(todo);
  lock.unlock();
  over.clear();  // their destructors wait for their listeners, which take the lock
  carry_out(std::move(todo));
  for (Connection* const connection : again) {
    Todo more;
    static_cast<void>(connect(*connection, more));
    carry_out(std::move(more));
  }
}

void WorkerPool::begin_connecting(Connection& connection) {
  connection.state = Connection::State::connecting;
  connection.programs = 0;
}

// Called without the lock, by one thread at a time: a transport may look up names and start
// threads.
Status WorkerPool::connect(Connection& connection, Todo& todo) noexcept {
  bool locally = options_.shared_memory && options_.security == WorkerSecurity();
  {
    const MutexLock lock(mutex_);
    locally = locally && connection.tries_locally;
  }
  std::unique_ptr<WorkerLink> link;
  Status failed;
  try {
    if (locally) link = connect_locally(connection.address(), options_.timeout, connection);
    if (!link)
      link =
          transport_.connect(connection.address(), options_.security, options_.timeout, connection);
  } catch (...) {
    failed = status_from_current_exception();
  }
  const MutexLock lock(mutex_);
  if (!failed.ok()) {
    lose(connection, failed, is_mistake(failed), todo);
  } else if (connection.state != Connection::State::connecting) {  // it is lost already
    connection.tries_locally = !link->on_this_machine();
    link->close();
    connection.old_link = std::move(link);
  } else {
    connection.on_this_machine = link->on_this_machine();
    connection.link = std::move(link);
    try {
      connection.link->send(hello_);
    } catch (...) {
      connection.link->close();  // its loss is reported like others
    }
  }
  return failed;
}

// Connects to workers that were found anew. Workers that disappeared get no more groups.
void WorkerPool::set_addresses(const std::vector<std::string>& addresses) {
  for (const auto& connection : connections_) {
    if (std::ranges::find(addresses, connection->address()) != addresses.end()) {
      if (connection->state == Connection::State::out) connection->state = Connection::State::down;
      continue;
    }
    if (connection->state == Connection::State::up)
      connection->state = Connection::State::leaving;
    else if (connection->state == Connection::State::down)
      connection->state = Connection::State::out;
  }
  for (const std::string& address : addresses) {
    if (std::ranges::none_of(connections_,
                             [&](const auto& known) { return known->address() == address; }))
      connections_.push_back(
          std::make_unique<Connection>(static_cast<ConnectionOwner&>(*this), address));
  }
  count_capacity();
}

Clock::duration WorkerPool::patience() const noexcept {
  if (usual_s_ == 0) return kFirstPatience;
  const auto long_time =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(4 * usual_s_));
  return std::max<Clock::duration>(long_time, kLeastPatience);
}

// Requests slow groups once more. The first answer counts. If no other worker has room, this
// process makes the group. Both may not write to the same rows, so the worker's answer no longer
// counts then.
void WorkerPool::hedge(Clock::time_point now, Todo& todo) {
  const Clock::duration patience = this->patience();
  for (auto at = under_way_.begin(); at != under_way_.end();) {
    Job& job = at->second;
    Connection* slow = nullptr;
    Clock::time_point last{};
    for (const auto& connection : connections_) {
      const auto sent = connection->asked.find(job.id);
      if (sent == connection->asked.end() || sent->second.at < last) continue;
      slow = connection.get();
      last = sent->second.at;
    }
    if (slow == nullptr || now - last < patience * job.tries || job.tries >= kMostTries) {
      ++at;
      continue;
    }
    if (Connection* const other = next_worker(job, slow)) {
      ++slow->stats.hedged;
      ++job.tries;
      send(*other, job);
      ++at;
    } else if (has_room_here()) {
      ++slow->stats.hedged;
      ++here_;
      ++groups_here_;
      todo.here.push_back(std::move(job));
      at = under_way_.erase(at);
    } else {
      ++at;
    }
  }
}

void WorkerPool::give_up_without_workers(Clock::time_point now, Todo& todo) {
  bool some = false;
  bool hope = follow_ != nullptr;
  for (const auto& connection : connections_) {
    some = some || connection->state == Connection::State::up;
    hope = hope || connection->state != Connection::State::out;
  }
  if (some) last_up_ = now;
  if (some || threads_here_ > 0 || line_.empty()) return;
  if (hope && now - last_up_ < options_.timeout) return;
  std::string why = hope ? "no input worker was available for " +
                               in_ms(std::chrono::duration_cast<milliseconds>(options_.timeout))
                         : "no input worker can make this graph";
  for (const auto& connection : connections_)
    if (!connection->stats.problem.empty())
      why += "; " + connection->address() + ": " + connection->stats.problem;
  todo.why = Status(hope || refused_.ok() ? ErrorCode::unavailable : refused_.error().code(), why);
  while (!line_.empty()) {
    todo.failed.push_back(std::move(line_.front()));
    line_.pop_front();
  }
}

void WorkerPool::leaving(Connection& connection) noexcept {
  const MutexLock lock(mutex_);
  if (connection.state == Connection::State::up) connection.state = Connection::State::leaving;
  count_capacity();
}

void WorkerPool::gone(Connection& connection, const Status& why, bool for_good) noexcept {
  Todo todo;
  {
    const MutexLock lock(mutex_);
    lose(connection, why, for_good, todo);
    hand_out(todo);
  }
  carry_out(std::move(todo));
}

// The worker's groups go to the front of the queue.
void WorkerPool::lose(Connection& connection, const Status& why, bool for_good, Todo& todo) {
  if (connection.state == Connection::State::out || connection.state == Connection::State::down)
    return;
  // A process that is no worker may have the worker's local name.
  connection.tries_locally =
      connection.state != Connection::State::connecting || !connection.on_this_machine;
  connection.state = for_good ? Connection::State::out : Connection::State::down;
  connection.next_try = Clock::now() + kBetweenTries;
  if (for_good && !why.ok()) refused_ = why;
  try {
    if (!why.ok()) connection.stats.problem = why.error().what();
    if (for_good && !why.ok())
      todo.warnings.emplace_back(
          "worker " + connection.address(),
          "the input worker " + connection.address() + " is not used: " + connection.stats.problem);
  } catch (const std::bad_alloc&) {  // it is lost without a text
  }
  if (connection.link != nullptr) {
    connection.link->close();
    connection.old_link = std::move(connection.link);
  }
  for (auto asked = connection.asked.rbegin(); asked != connection.asked.rend(); ++asked) {
    const auto found = under_way_.find(asked->first);
    if (found == under_way_.end()) continue;
    ++connection.stats.lost;
    if (--found->second.tries > 0) continue;
    line_.push_front(std::move(found->second));
    under_way_.erase(found);
  }
  connection.asked.clear();
  connection.bytes = 0;
  count_capacity();
}

std::unique_ptr<RemoteWork> open_workers(const RemoteServices& services) {
  auto pool = std::make_unique<WorkerPool>(services);
  pool->start();
  return pool;
}

}  // namespace penstock::remote
