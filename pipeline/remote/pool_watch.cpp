// The pool's reaction to workers that are silent.
#include <algorithm>
#include <utility>

#include <penstock/log.h>

#include "pipeline/engine/run/run.h"
#include "pipeline/remote/local_link.h"
#include "pipeline/remote/pool.h"

namespace penstock::remote {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{10};
constexpr milliseconds kBetweenTries{250};
constexpr milliseconds kLeastPatience{30};
constexpr milliseconds kFirstPatience{500};
constexpr int kMostTries = 3;

std::string in_ms(milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

}  // namespace

void WorkerPool::watch(const std::stop_token& stop) noexcept {
  while (!stop.stop_requested()) {
    try {
      Lock lock(mutex_);
      changed_.wait_for(lock, stop, kTick, [] { return false; });
      if (stop.stop_requested()) return;
      look(lock, Clock::now());
    } catch (...) {
      // If there is no memory now, the next round does the work.
    }
  }
}

void WorkerPool::look(Lock& lock, Clock::time_point now) {
  Todo todo;
  std::vector<std::unique_ptr<WorkerLink>> over;
  if (std::exchange(wanted_changed_, false)) set_addresses(wanted_);
  for (const auto& connection : connections_) {
    if (connection->state == Connection::State::leaving && connection->asked.empty() && follow_)
      lose(*connection, Status(), true);
    // Wait until the old link is gone, because it may still deliver messages.
    if (connection->old_link != nullptr)
      over.push_back(std::move(connection->old_link));
    else if (connection->state == Connection::State::down && now >= connection->next_try)
      connect(*connection, now);
  }
  hedge(now, todo);
  give_up_without_workers(now, todo);
  hand_out(todo);
  lock.unlock();
  over.clear();  // their destructors wait for their listeners, which take the lock
  carry_out(std::move(todo));
  lock.lock();
}

void WorkerPool::connect(Connection& connection, Clock::time_point now) {
  connection.state = Connection::State::connecting;
  connection.programs = 0;
  try {
    std::unique_ptr<WorkerLink> link;
    if (connection.tries_locally && options_.shared_memory && options_.security == WorkerSecurity())
      link = connect_locally(connection.address(), options_.timeout, connection);
    if (!link)
      link =
          transport_.connect(connection.address(), options_.security, options_.timeout, connection);
    connection.on_this_machine = link->on_this_machine();
    connection.link = std::move(link);
    connection.link->send(hello_);
  } catch (const Error& error) {
    const bool in_vain =
        error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::not_found;
    lose(connection, Status(error), in_vain);
    connection.next_try = now + kBetweenTries;
  }
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
  std::string why = hope ? "no input worker was there for " +
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
  const std::lock_guard lock(mutex_);
  if (connection.state == Connection::State::up) connection.state = Connection::State::leaving;
  count_capacity();
}

void WorkerPool::gone(Connection& connection, const Status& why, bool for_good) noexcept {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    lose(connection, why, for_good);
    hand_out(todo);
  }
  carry_out(std::move(todo));
}

// The worker's groups go to the front of the queue.
void WorkerPool::lose(Connection& connection, const Status& why, bool for_good) {
  if (connection.state == Connection::State::out || connection.state == Connection::State::down)
    return;
  // A process that is no worker may have the worker's local name.
  connection.tries_locally =
      connection.state != Connection::State::connecting || !connection.on_this_machine;
  connection.state = for_good ? Connection::State::out : Connection::State::down;
  connection.next_try = Clock::now() + kBetweenTries;
  if (!why.ok()) connection.stats.problem = why.error().what();
  if (for_good && !why.ok()) {
    refused_ = why;
    log_once(
        LogLevel::warning, "worker " + connection.address(),
        "the input worker " + connection.address() + " is left out: " + connection.stats.problem);
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

}  // namespace penstock::remote
