#include "tools/penstock/run/parameter_role.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include <penstock/device.h>
#include <penstock/log.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/support/messages.h"
#include "towers/servers/shard_server.h"
#include "towers/train/train_plan.h"

namespace penstock::tool {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string new_name() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random());
}

/// True for strategies whose variables are on the job's parameter servers, if it has some.
bool holds_variables(towers::StrategyKind kind) {
  return kind == towers::StrategyKind::async || kind == towers::StrategyKind::sync_replicas;
}

/// True if this process and the chief have addresses on the same host.
bool chief_is_here(const cluster::Cluster& cluster) {
  const auto host_of = [](const std::string& address) {
    return address.substr(0, address.rfind(':'));
  };
  return std::ranges::any_of(cluster.peers, [&](const cluster::Peer& peer) {
    return peer.role == cluster.role && peer.index == cluster.index &&
           host_of(peer.address) == host_of(cluster.peers.front().address);
  });
}

}  // namespace

std::string stand_ins(const std::string& devices) {
  std::string list;
  for (const std::string& name : split(devices, ',')) {
    const bool cuda = name.starts_with("cuda");
    if (cuda && name != "cuda:*") static_cast<void>(DeviceId::parse(name));
    list += (list.empty() ? "" : ",") + (cuda ? "host:0" : name);
  }
  return list;
}

void check_as_chief(const cluster::Cluster& cluster, towers::TrainOptions options,
                    const std::function<Dataset()>& open) {
  std::optional<Dataset> train;
  try {
    train = open();
  } catch (const Error& error) {
    // Only the host of a process that trains has to have the data.
    if (error.code() == ErrorCode::invalid_argument || chief_is_here(cluster)) throw;
    log(LogLevel::warning,
        std::string("this parameter server can't check the data, which it does not need: ") +
            error.what());
  }
  towers::ServedJob job;
  job.processes = cluster.world;
  if (holds_variables(options.strategy.kind)) options.strategy.served = &job;
  towers::check_options(options);
  if (train) {
    towers::planned(*train, std::move(options), {});
  } else {
    towers::completed(std::move(options));
  }
}

std::vector<std::string> parameter_servers_of(const cluster::Cluster& cluster) {
  std::vector<std::string> addresses;
  for (const cluster::Peer& peer : cluster.peers)
    if (peer.role == cluster::Role::parameter_server) addresses.push_back(peer.address);
  return addresses;
}

int be_parameter_server(const cluster::Cluster& cluster, const cluster::RendezvousOptions& options,
                        Interrupts& interrupts) {
  const std::vector<std::string> all = parameter_servers_of(cluster);
  const auto index = static_cast<std::size_t>(cluster.index);
  if (index >= all.size())
    throw UsageError("a parameter server needs an address in the list", "--cluster");
  const std::string me = "ps " + std::to_string(index) + " at " + all[index];
  const auto name_of = [&](const std::string& address) {
    const auto found = std::ranges::find(all, address);
    return found == all.end() ? std::string("a ps") : "ps " + std::to_string(found - all.begin());
  };
  towers::ShardServer server({.peer_timeout = options.peer_timeout,
                              .join_timeout = options.join_timeout,
                              .connect = [&](const std::string& address) {
                                return cluster::open_parameter_server(name_of(address), address,
                                                                      options);
                              }});
  const auto served =
      cluster::serve_parameters(server, all[index], options, [&] { server.look(); });
  const Cancellation cancellation(
      interrupts, [&] { server.stop(Status(ErrorCode::cancelled, me + " was told to stop")); });
  const Clock::time_point until = Clock::now() + options.join_timeout;
  std::optional<Status> ended;
  while (!(ended = server.ended(milliseconds(200))) && interrupts.received() == 0) {
    if (Clock::now() > until && !server.begun()) {
      print_error("no chief has begun a run at " + me + " in " +
                  std::to_string(options.join_timeout.count()) + " ms");
      return kNoProgress;
    }
  }
  const bool well = ended && ended->ok();
  // Training processes learn of the end with their next sign of life, and may then report
  // something.
  if (!well) std::this_thread::sleep_for(options.peer_timeout / 2);
  server.wait_until_known(options.peer_timeout);
  if (interrupts.received() != 0) return interrupts.exit_code();
  if (well) return kOk;
  print_error(ended->error().what());
  return kNoProgress;
}

JobServers::JobServers(const cluster::Cluster& cluster, const cluster::RendezvousOptions& options,
                       towers::StrategyOptions& strategy, const cluster::Facts& facts)
    : why_(ErrorCode::unavailable, "the chief has ended") {
  const bool hold = holds_variables(strategy.kind);
  job_.addresses = parameter_servers_of(cluster);
  if (hold && cluster.world > 1 && job_.addresses.empty())
    throw UsageError(std::string(towers::name_of(strategy.kind)) +
                         " in a job of several processes keeps variables on parameter servers: "
                         "list some under the role ps",
                     "--strategy");
  if (!hold && !cluster.is_chief()) return;
  for (const std::string& address : job_.addresses)
    job_.servers.push_back(cluster::open_parameter_server(
        "ps " + std::to_string(job_.servers.size()), address, options));
  if (job_.servers.empty()) return;
  if (hold) {
    job_.process = cluster.rank;
    job_.processes = cluster.world;
    job_.incarnation = new_name();
    job_.facts = {facts.begin(), facts.end()};
    job_.beat_every = options.peer_timeout / 5;
    job_.join_timeout = options.join_timeout;
    job_.lost_wait = options.join_timeout;
    strategy.served = &job_;
    return;
  }
  run_ = new_name();
  towers::Beginning beginning{.run = run_,
                              .facts = {facts.begin(), facts.end()},
                              .strategy = "none",
                              .combine = "average",
                              .optimizer = "sgd",
                              .schedule = "constant:0",
                              .pushes = {0},
                              .feeds = {{"", {0}}}};
  const towers::Trainee chief{.process = 0, .incarnation = run_};
  // A server that holds nothing does no harm when it is lost.
  pulse_ = std::make_unique<towers::Pulse>(chief, options.peer_timeout / 5,
                                           [](const Status& /*lost*/) {});
  for (const auto& server : job_.servers) {
    server->begin(beginning, chief);
    server->ready(run_);
    pulse_->add(server);
    ++beginning.server;
    beginning.feeds.clear();  // which are server 0's business
  }
}

JobServers::~JobServers() {
  pulse_.reset();
  if (run_.empty()) return;
  for (const auto& server : job_.servers) {
    try {
      server->end(run_, why_);
    } catch (...) {  // the server is lost, which does no harm
    }
  }
}

bool JobServers::is_loss(const Status& why) const {
  if (!hold_variables() || why.ok()) return false;
  // In front of the cause, the text may name the tower that the error ended.
  return std::ranges::any_of(job_.servers, [&](const auto& server) {
    const Status loss = server->loss();
    return !loss.ok() && why.error().cause().ends_with(loss.error().cause());
  });
}

}  // namespace penstock::tool
