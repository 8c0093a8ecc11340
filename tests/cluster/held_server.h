// A parameter server for tests of the layers between it and training processes. It keeps the
// arguments of all calls, and has few rules.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::cluster::test {

/// Thread-safe. A push adds its values. `number` counts for each replica, so that a repeated push
/// is recognised. The members with the latest arguments can be read when no call runs.
class HeldServer : public towers::ParameterServer {
 public:
  void begin(const towers::Beginning& beginning, const towers::Trainee& chief) override {
    const std::lock_guard lock(mutex_);
    check();
    begun = beginning;
    trainee = chief;
    for (const towers::ServedVariable& variable : beginning.variables)
      values[variable.number].resize(static_cast<std::size_t>(variable.shape.volume()));
    changed_.notify_all();
  }
  void give(const std::string& run, int slot, const towers::Piece& piece) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    given[{slot, piece.variable}].assign(piece.values, piece.values + piece.count);
    if (slot == -1) values[piece.variable].assign(piece.values, piece.values + piece.count);
  }
  void ready(const std::string& run) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    is_ready = true;
    changed_.notify_all();
  }
  towers::SnapshotHead keep(const std::string& run) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    return head;
  }
  void snapshot(const std::string& run, int slot, towers::Takers& taker) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    for (const auto& [key, kept] : given)
      if (key.first == slot) tell(key.second, kept, taker);
  }
  towers::ServerFigures figures(const std::string& run) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    return counted;
  }
  void end(const std::string& run, const Status& why) override {
    const std::lock_guard lock(mutex_);
    last_run = run;
    last_words = why;
    ended = true;
    if (!why.ok()) failure = why;
    changed_.notify_all();
  }

  towers::Entered enter(const towers::Trainee& who, const std::map<std::string, std::string>& facts,
                        std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [this] { return is_ready || !failure.ok(); }))
      throw Error(ErrorCode::no_progress, "the run did not begin");
    check();
    trainee = who;
    told = facts;
    return entered;
  }
  Status beat(const towers::Trainee& who, const Status& failed) override {
    const std::lock_guard lock(mutex_);
    ++beats[who.process];
    if (!failed.ok() && failure.ok()) failure = failed;
    changed_.notify_all();
    return failure;
  }
  void keep_feed(const towers::Trainee& who, const towers::KeptFeed& feed) override {
    const std::lock_guard lock(mutex_);
    check();
    trainee = who;
    kept_feed = feed;
  }
  towers::Pushed push(const towers::Trainee& who, const towers::Push& push,
                      towers::Takers& taker) override {
    const std::lock_guard lock(mutex_);
    check();
    trainee = who;
    last_push = push;
    last_push.pieces.clear();
    const bool repeated = push.number <= done[push.replica];
    if (!repeated) {
      for (const towers::Piece& piece : push.pieces) add(piece);
      done[push.replica] = push.number;
      ++step;
    }
    if (gives)
      for (const auto& [variable, now] : values) tell(variable, now, taker);
    return {repeated ? towers::PushVerdict::repeated : verdict, step, step - push.seen};
  }
  towers::Pushed commit(const towers::Trainee& who, int replica, std::uint64_t number,
                        std::uint64_t seen, std::int64_t rows) override {
    const std::lock_guard lock(mutex_);
    check();
    trainee = who;
    last_push = {.replica = replica, .number = number, .seen = seen, .rows = rows};
    return {towers::PushVerdict::dropped, step, 3};
  }
  bool take(const towers::Trainee& who, int replica, std::chrono::milliseconds limit,
            std::uint64_t& of_step, bool& finished) override {
    std::unique_lock lock(mutex_);
    trainee = who;
    changed_.wait_for(lock, limit, [&] { return tokens[replica] > 0 || !failure.ok(); });
    check();
    of_step = step;
    finished = ended;
    if (tokens[replica] == 0) return false;
    --tokens[replica];
    return true;
  }
  std::uint64_t pull(const towers::Trainee& who, std::uint64_t have,
                     towers::Takers& taker) override {
    const std::lock_guard lock(mutex_);
    check();
    trainee = who;
    if (have == towers::kHasNothing || have < step)
      for (const auto& [variable, now] : values) tell(variable, now, taker);
    return step;
  }
  void pull_rows(const towers::Trainee& who, std::uint32_t variable,
                 const std::vector<std::int64_t>& rows, float* to, std::size_t count) override {
    const std::lock_guard lock(mutex_);
    check();
    trainee = who;
    const std::size_t in_row = rows.empty() ? 0 : count / rows.size();
    for (const std::int64_t row : rows)
      for (std::size_t i = 0; i < in_row; ++i)
        *to++ = values.at(variable).at(static_cast<std::size_t>(row) * in_row + i);
  }
  void leave(const towers::Trainee& who, int replica) override {
    const std::lock_guard lock(mutex_);
    check();
    trainee = who;
    left.push_back(replica);
  }

  std::vector<towers::SquareSum> norms(const std::string& run,
                                       const towers::Update& update) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    last_update = update;
    return {{.variable = 7, .squares = 0.1}, {.variable = 8, .squares = 1e-300}};
  }
  void apply(const std::string& run, const towers::Update& update) override {
    const std::lock_guard lock(mutex_);
    check();
    last_run = run;
    last_update = update;
  }
  towers::SnapshotHead keep_here(const std::string& run) override { return keep(run); }

  /// The test calls these, at any time.
  void give_token(int replica) {
    const std::lock_guard lock(mutex_);
    ++tokens[replica];
    changed_.notify_all();
  }
  void fail(const Status& why) {
    const std::lock_guard lock(mutex_);
    failure = why;
    changed_.notify_all();
  }
  int beats_of(int process) {
    const std::lock_guard lock(mutex_);
    return beats[process];
  }

  towers::Beginning begun;
  towers::Trainee trainee;
  std::map<std::uint32_t, std::vector<float>> values;
  std::map<std::pair<int, std::uint32_t>, std::vector<float>> given;
  std::string last_run;
  bool is_ready = false, ended = false;
  Status last_words;
  std::map<std::string, std::string> told;
  std::map<int, int> beats;
  towers::KeptFeed kept_feed;
  towers::Push last_push;
  std::map<int, std::uint64_t> done;
  std::uint64_t step = 0;
  std::map<int, int> tokens;
  std::vector<int> left;
  towers::Update last_update;
  // The values that it returns.
  towers::Entered entered;
  towers::SnapshotHead head;
  towers::ServerFigures counted;
  towers::PushVerdict verdict = towers::PushVerdict::applied;
  bool gives = true;  ///< whether a push returns values

 private:
  void check() const {
    if (!failure.ok()) throw Error(failure.error());
  }
  static void tell(std::uint32_t variable, const std::vector<float>& now, towers::Takers& taker) {
    if (float* const to = taker.place(variable, now.size()); to != nullptr)
      std::copy(now.begin(), now.end(), to);
  }
  void add(const towers::Piece& piece) {
    std::vector<float>& now = values.at(piece.variable);
    const std::size_t in_row = piece.row_count == 0 ? 0 : piece.count / piece.row_count;
    for (std::size_t i = 0; i < piece.count; ++i) {
      const std::size_t at =
          piece.rows == nullptr
              ? i
              : static_cast<std::size_t>(piece.rows[i / in_row]) * in_row + i % in_row;
      now.at(at) += piece.values[i];
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Status failure;  // guarded by mutex_
};

/// A taker that keeps the values it receives.
class Taken final : public towers::Takers {
 public:
  float* place(std::uint32_t variable, std::size_t count) override {
    ++asked[variable];
    if (unwanted == static_cast<std::int64_t>(variable)) return nullptr;
    std::vector<float>& to = values[variable];
    to.assign(count, -1);
    return to.data();
  }

  std::map<std::uint32_t, std::vector<float>> values;
  std::map<std::uint32_t, int> asked;
  std::int64_t unwanted = -1;
};

}  // namespace penstock::cluster::test
