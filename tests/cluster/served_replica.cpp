// A replica of sync_replicas that does what it is told on stdin, and says on stdout what came of
// it.
//
//     cluster_served_replica PROCESS REPLICAS AGGREGATE SERVERS TIMEOUT
//
// Each process has one replica; process 0 begins the run. SERVERS: addresses, "a:1,b:2", each with
// a variable; TIMEOUT: of peers, in ms. Says "ready", then to
//
//     push     "applied STEP" or "dropped STEP"; it waits for its token before
//     token    the step of the token that it holds, or "-"
//     leave    "left"
//     figures  of process 0: "STEP APPLIED DROPPED PENDING LOST"
//     end      of process 0: "ended"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "cluster/parameter_servers.h"
#include "tests/towers/servers/small_run.h"
#include "towers/servers/pulse.h"

namespace {

using namespace penstock;
using std::chrono::milliseconds;
using towers::test::SmallPush;

class Replica {
 public:
  Replica(int process, int replicas, int aggregate, const std::vector<std::string>& addresses,
          const cluster::RendezvousOptions& options)
      : me_{process, std::to_string(::getpid())},
        pulse_(me_, options.peer_timeout / 5, [](const Status& why) { say(why.error().what()); }) {
    for (const std::string& address : addresses)
      servers_.push_back(cluster::open_parameter_server("a ps", address, options));
    if (process == 0) begin(replicas, aggregate, addresses);
    for (std::size_t s = 0; s < servers_.size() && process > 0; ++s) {
      const towers::Entered entered = servers_[s]->enter(me_, {}, milliseconds(20'000));
      if (s == 0) number_ = entered.pushes.at(static_cast<std::size_t>(process));
      pulse_.add(servers_[s]);
    }
    say("ready");
  }

  void obey(const std::string& what) {
    if (what == "push") return push();
    if (what == "token") return say(take(milliseconds(0)) ? std::to_string(step_) : "-");
    if (what == "leave") {
      for (const auto& server : servers_) server->leave(me_, me_.process);
      return say("left");
    }
    if (what == "figures") {
      const towers::ServerFigures all = servers_.front()->figures("run");
      return say(std::to_string(all.step) + " " + std::to_string(all.applied) + " " +
                 std::to_string(all.dropped) + " " + std::to_string(all.pending) + " " +
                 std::to_string(all.lost.size()));
    }
    for (const auto& server : servers_) server->end("run", {});
    say("ended");
  }

 private:
  static void say(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  void begin(int replicas, int aggregate, const std::vector<std::string>& addresses) {
    towers::Beginning beginning = towers::test::small_beginning("sync_replicas", replicas);
    beginning.aggregate = aggregate;
    beginning.servers = addresses;
    const std::vector<towers::ServedVariable> variables = beginning.variables;
    const std::vector<float> ones(2, 1.0F);
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      beginning.server = static_cast<int>(s);
      beginning.variables = {variables.at(s)};
      servers_[s]->begin(beginning, me_);
      pulse_.add(servers_[s]);
      const towers::ServedVariable& one = variables[s];
      servers_[s]->give(
          "run", -1,
          {one.number, ones.data(), static_cast<std::size_t>(one.shape.volume()), nullptr, 0});
      beginning.feeds.clear();
    }
    for (std::size_t s = servers_.size(); s > 0; --s) servers_[s - 1]->ready("run");
  }

  bool take(milliseconds limit) {
    bool finished = false;
    return servers_.front()->take(me_, me_.process, limit, step_, finished);
  }

  void push() {
    if (!take(milliseconds(5000))) return say("no token");
    const std::uint64_t number = ++number_;
    SmallPush push(me_.process, number, step_, 0.01F);
    const std::vector<towers::Piece> all = push->pieces;
    towers::test::Values none;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      push->pieces = {all.at(s)};
      servers_[s]->push(me_, *push, none);
    }
    const towers::Pushed pushed = servers_.front()->commit(me_, me_.process, number, step_, 1);
    say((pushed.verdict == towers::PushVerdict::dropped ? "dropped " : "applied ") +
        std::to_string(pushed.step));
  }

  const towers::Trainee me_;
  std::vector<std::shared_ptr<towers::ParameterServer>> servers_;
  towers::Pulse pulse_;
  std::uint64_t number_ = 0, step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  ::alarm(120);
  std::vector<std::string> addresses;
  std::istringstream list(argv[4]);
  for (std::string one; std::getline(list, one, ',');) addresses.push_back(one);
  cluster::RendezvousOptions options;
  options.peer_timeout = milliseconds(std::atoi(argv[5]));
  options.join_timeout = milliseconds(20'000);
  try {
    Replica replica(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), addresses, options);
    for (std::string line; std::getline(std::cin, line);) replica.obey(line);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 75;
  }
  return 0;
}
