// Jobs with parameter servers whose processes are threads of a test.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/towers/twins.h"
#include "towers/servers/served_job.h"
#include "towers/servers/shard_server.h"

namespace penstock::towers::test {

/// A server as seen by a client that does not own it.
class Borrowed : public ParameterServer {
 public:
  explicit Borrowed(ParameterServer& server) : server_(server) {}

  void begin(const Beginning& beginning, const Trainee& chief) override {
    call([&] { server_.begin(beginning, chief); });
  }
  void give(const std::string& run, int slot, const Piece& values) override {
    call([&] { server_.give(run, slot, values); });
  }
  void ready(const std::string& run) override {
    call([&] { server_.ready(run); });
  }
  SnapshotHead keep(const std::string& run) override {
    return call([&] { return server_.keep(run); });
  }
  void snapshot(const std::string& run, int slot, Takers& taker) override {
    call([&] { server_.snapshot(run, slot, taker); });
  }
  ServerFigures figures(const std::string& run) override {
    return call([&] { return server_.figures(run); });
  }
  void end(const std::string& run, const Status& why) override {
    call([&] { server_.end(run, why); });
  }
  Entered enter(const Trainee& who, const std::map<std::string, std::string>& facts,
                std::chrono::milliseconds limit) override {
    return call([&] { return server_.enter(who, facts, limit); });
  }
  Status beat(const Trainee& who, const Status& failed) override {
    return call([&] { return server_.beat(who, failed); });
  }
  void keep_feed(const Trainee& who, const KeptFeed& feed) override {
    call([&] { server_.keep_feed(who, feed); });
  }
  Pushed push(const Trainee& who, const Push& push, Takers& taker) override {
    return call([&] { return server_.push(who, push, taker); });
  }
  Pushed commit(const Trainee& who, int replica, std::uint64_t number, std::uint64_t seen,
                std::int64_t rows) override {
    return call([&] { return server_.commit(who, replica, number, seen, rows); });
  }
  bool take(const Trainee& who, int replica, std::chrono::milliseconds limit, std::uint64_t& step,
            bool& finished) override {
    return call([&] { return server_.take(who, replica, limit, step, finished); });
  }
  std::uint64_t pull(const Trainee& who, std::uint64_t have, Takers& taker) override {
    return call([&] { return server_.pull(who, have, taker); });
  }
  void pull_rows(const Trainee& who, std::uint32_t variable, const std::vector<std::int64_t>& rows,
                 float* values, std::size_t count) override {
    call([&] { server_.pull_rows(who, variable, rows, values, count); });
  }
  void leave(const Trainee& who, int replica) override {
    call([&] { server_.leave(who, replica); });
  }
  std::vector<SquareSum> norms(const std::string& run, const Update& update) override {
    return call([&] { return server_.norms(run, update); });
  }
  void apply(const std::string& run, const Update& update) override {
    call([&] { server_.apply(run, update); });
  }
  SnapshotHead keep_here(const std::string& run) override {
    return call([&] { return server_.keep_here(run); });
  }

 protected:
  /// Called around each call, to do to it what a network may do.
  virtual void before() {}
  virtual void after() {}
  /// The number of attempts for a call that breaks.
  virtual int tries() const { return 1; }

 private:
  template <typename F>
  std::invoke_result_t<const F&> call(const F& body) {
    for (int left = tries();; --left) {
      try {
        before();
        if constexpr (std::is_void_v<decltype(body())>) {
          body();
          after();
          return;
        } else {
          auto answer = body();
          after();
          return answer;
        }
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unavailable || left <= 1) throw;
      }
    }
  }

  ParameterServer& server_;
};

/// Parameter servers, and a thread that makes them look for lost processes.
class LocalServers {
 public:
  explicit LocalServers(int count, std::chrono::milliseconds peer_timeout) {
    ShardServerOptions options;
    options.peer_timeout = peer_timeout;
    options.join_timeout = std::chrono::seconds(30);
    options.connect = [this](const std::string& address) -> std::unique_ptr<ParameterServer> {
      return std::make_unique<Borrowed>(*servers_.at(std::stoul(address)));
    };
    for (int s = 0; s < count; ++s) servers_.push_back(std::make_unique<ShardServer>(options));
    looks_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        for (const auto& server : servers_) server->look();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  ShardServer& at(int s) { return *servers_.at(static_cast<std::size_t>(s)); }
  int count() const { return static_cast<int>(servers_.size()); }
  std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (std::size_t s = 0; s < servers_.size(); ++s) all.push_back(std::to_string(s));
    return all;
  }

 private:
  std::vector<std::unique_ptr<ShardServer>> servers_;
  std::jthread looks_;
};

using Wrap = std::function<std::shared_ptr<ParameterServer>(ParameterServer&)>;

inline ServedJob job_of(LocalServers& servers, int process, int processes,
                        const std::string& incarnation, const Wrap& wrap = {}) {
  ServedJob job;
  for (int s = 0; s < servers.count(); ++s)
    job.servers.push_back(wrap ? wrap(servers.at(s)) : std::make_shared<Borrowed>(servers.at(s)));
  job.addresses = servers.addresses();
  job.process = process;
  job.processes = processes;
  job.incarnation = incarnation;
  job.beat_every = std::chrono::milliseconds(20);
  job.join_timeout = std::chrono::seconds(30);
  job.lost_wait = std::chrono::milliseconds(300);
  return job;
}

/// The result of a process.
struct Ended {
  std::optional<TrainResult> result{};
  std::optional<Error> error{};
};

inline Ended run_process(const ModelMaker& make, const Dataset& train, TrainOptions options,
                         const ServedJob& job) {
  options.strategy.served = &job;
  TrainObserver nobody;
  try {
    Trainer trainer(make, train, std::nullopt, options);
    return {trainer.run(nobody), std::nullopt};
  } catch (const Error& error) {
    return {std::nullopt, error};
  }
}

/// Runs all processes of a job with the same `options`. The first is the chief.
inline std::vector<Ended> run_job(LocalServers& servers, const ModelMaker& make,
                                  const Dataset& train, const TrainOptions& options, int processes,
                                  const std::string& name = "run") {
  std::vector<Ended> ended(static_cast<std::size_t>(processes));
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < processes; ++p)
      threads.emplace_back([&, p] {
        const ServedJob job = job_of(servers, p, processes, name + " of " + std::to_string(p));
        ended[static_cast<std::size_t>(p)] = run_process(make, train, options, job);
      });
  }
  return ended;
}

}  // namespace penstock::towers::test
