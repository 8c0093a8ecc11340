// Parameter servers that log what they did, or what a trainer learnt of it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::cluster::test {

/// Passes all calls on to another server.
class PassedOn : public towers::ParameterServer {
 public:
  explicit PassedOn(towers::ParameterServer& server) : server_(server) {}

  void begin(const towers::Beginning& beginning, const towers::Trainee& chief) override {
    server_.begin(beginning, chief);
  }
  void give(const std::string& run, int slot, const towers::Piece& values) override {
    server_.give(run, slot, values);
  }
  void ready(const std::string& run) override { server_.ready(run); }
  towers::SnapshotHead keep(const std::string& run) override { return server_.keep(run); }
  void snapshot(const std::string& run, int slot, towers::Takers& taker) override {
    server_.snapshot(run, slot, taker);
  }
  towers::ServerFigures figures(const std::string& run) override { return server_.figures(run); }
  void end(const std::string& run, const Status& why) override { server_.end(run, why); }
  towers::Entered enter(const towers::Trainee& who, const std::map<std::string, std::string>& facts,
                        std::chrono::milliseconds limit) override {
    return server_.enter(who, facts, limit);
  }
  Status beat(const towers::Trainee& who, const Status& failed) override {
    return server_.beat(who, failed);
  }
  void keep_feed(const towers::Trainee& who, const towers::KeptFeed& feed) override {
    server_.keep_feed(who, feed);
  }
  towers::Pushed push(const towers::Trainee& who, const towers::Push& push,
                      towers::Takers& taker) override {
    return server_.push(who, push, taker);
  }
  towers::Pushed commit(const towers::Trainee& who, int replica, std::uint64_t number,
                        std::uint64_t seen, std::int64_t rows) override {
    return server_.commit(who, replica, number, seen, rows);
  }
  bool take(const towers::Trainee& who, int replica, std::chrono::milliseconds limit,
            std::uint64_t& step, bool& finished) override {
    return server_.take(who, replica, limit, step, finished);
  }
  std::uint64_t pull(const towers::Trainee& who, std::uint64_t have,
                     towers::Takers& taker) override {
    return server_.pull(who, have, taker);
  }
  void pull_rows(const towers::Trainee& who, std::uint32_t variable,
                 const std::vector<std::int64_t>& rows, float* values, std::size_t count) override {
    server_.pull_rows(who, variable, rows, values, count);
  }
  void leave(const towers::Trainee& who, int replica) override { server_.leave(who, replica); }
  std::vector<towers::SquareSum> norms(const std::string& run,
                                       const towers::Update& update) override {
    return server_.norms(run, update);
  }
  void apply(const std::string& run, const towers::Update& update) override {
    server_.apply(run, update);
  }
  towers::SnapshotHead keep_here(const std::string& run) override { return server_.keep_here(run); }

 private:
  towers::ParameterServer& server_;
};

inline bool counts(towers::PushVerdict verdict) {
  return verdict == towers::PushVerdict::applied || verdict == towers::PushVerdict::dropped;
}
using Log = std::function<void(const std::string&)>;

/// On the side of a server, logs after which pushes a run begins, and the pushes it takes. See
/// served_log.h.
class Taking final : public PassedOn {
 public:
  Taking(towers::ParameterServer& server, Log log) : PassedOn(server), log_(std::move(log)) {}

  void begin(const towers::Beginning& beginning, const towers::Trainee& chief) override {
    PassedOn::begin(beginning, chief);
    const std::lock_guard lock(mutex_);
    if (std::exchange(run_, beginning.run) == beginning.run) return;
    server_ = beginning.server;
    synchronous_ = beginning.strategy == "sync_replicas";
    updates_ = beginning.step;
    std::string pushes;
    for (const std::uint64_t count : beginning.pushes)
      pushes += (pushes.empty() ? "" : ",") + std::to_string(count);
    log_("begin " + run_ + " " + std::to_string(server_) + " " + pushes);
  }
  towers::Pushed push(const towers::Trainee& who, const towers::Push& push,
                      towers::Takers& taker) override {
    const towers::Pushed pushed = PassedOn::push(who, push, taker);
    if (counts(pushed.verdict)) took(push.replica, push.number);
    return pushed;
  }
  towers::Pushed commit(const towers::Trainee& who, int replica, std::uint64_t number,
                        std::uint64_t seen, std::int64_t rows) override {
    const towers::Pushed pushed = PassedOn::commit(who, replica, number, seen, rows);
    if (counts(pushed.verdict) && synchronous_) took(replica, number);
    return pushed;
  }
  void apply(const std::string& run, const towers::Update& update) override {
    PassedOn::apply(run, update);
    const std::lock_guard lock(mutex_);
    if (update.step < updates_) return;  // asked again
    updates_ = update.step + 1;
    for (const towers::Contribution& one : update.contributions) say(one.replica, one.number);
  }

  bool begun() {
    const std::lock_guard lock(mutex_);
    return !run_.empty();
  }
  /// Logs when a process was taken for lost.
  void note_losses() noexcept try {
    const std::lock_guard lock(mutex_);
    if (run_.empty() || server_ != 0) return;
    const std::uint64_t losses = figures(run_).losses;
    if (losses > 0 && losses != std::exchange(losses_, losses)) log_("lost");
  } catch (const Error&) {  // the run has ended
  }

 private:
  void took(int replica, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    say(replica, number);
  }
  void say(int replica, std::uint64_t number) const {
    log_("took " + run_ + " " + std::to_string(server_) + " " + std::to_string(replica) + " " +
         std::to_string(number));
  }

  const Log log_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::string run_;
  int server_ = 0;
  bool synchronous_ = false;
  std::uint64_t updates_ = 0;
  std::uint64_t losses_ = 0;
};

/// On the side of a trainer, logs what it has learnt.
class Hearing final : public PassedOn {
 public:
  /// `ids_of`: returns the elements of the replica's newest batch.
  Hearing(towers::ParameterServer& server, int number, Log log,
          std::function<std::string(int)> ids_of)
      : PassedOn(server), number_(number), log_(std::move(log)), ids_of_(std::move(ids_of)) {}

  void begin(const towers::Beginning& beginning, const towers::Trainee& chief) override {
    PassedOn::begin(beginning, chief);
    run_ = beginning.run;
  }
  towers::Entered enter(const towers::Trainee& who, const std::map<std::string, std::string>& facts,
                        std::chrono::milliseconds limit) override {
    towers::Entered entered = PassedOn::enter(who, facts, limit);
    run_ = entered.run;
    return entered;
  }
  towers::Pushed push(const towers::Trainee& who, const towers::Push& push,
                      towers::Takers& taker) override {
    if (number_ == 0)
      log_("ids " + std::to_string(push.replica) + " " + std::to_string(push.number) + " " +
           ids_of_(push.replica));
    const towers::Pushed pushed = PassedOn::push(who, push, taker);
    if (counts(pushed.verdict)) told(push.replica, push.number);
    return pushed;
  }
  towers::Pushed commit(const towers::Trainee& who, int replica, std::uint64_t number,
                        std::uint64_t seen, std::int64_t rows) override {
    const towers::Pushed pushed = PassedOn::commit(who, replica, number, seen, rows);
    if (counts(pushed.verdict)) told(replica, number);
    return pushed;
  }

 private:
  void told(int replica, std::uint64_t number) const {
    log_("told " + run_ + " " + std::to_string(number_) + " " + std::to_string(replica) + " " +
         std::to_string(number));
  }

  const int number_;
  const Log log_;
  const std::function<std::string(int)> ids_of_;
  std::string run_;  // does not change while towers run
};

}  // namespace penstock::cluster::test
