#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <penstock/version.h>

#include "cluster/cluster.h"
#include "cluster/reach.h"
#include "cluster/rendezvous.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/cluster_flags.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

class ClusterCommand final : public Command {
 public:
  explicit ClusterCommand(CLI::App& program)
      : Command(program, "cluster",
                "show which process of a job this is, and check that it can reach the others",
                "mpirun -n 2 penstock cluster\n"
                "  penstock cluster --cluster 'a:2222,b:2222' --rank 0 --check") {
    flags_.add_to(*app());
    app()->add_flag("--meet", meet_,
                    "meet the other ranks at the rendezvous, and compare versions");
    app()->add_flag("--check", check_,
                    "listen, and connect to the others; run this on all hosts at the same time");
    app()
        ->add_option("--timeout", timeout_s_, "time limit of --check and --meet, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 3600))
        ->type_name("S");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
  }

  int run() override {
    check_output(json_);
    const cluster::Cluster cluster = flags_.resolve();
    std::FILE* stream = json_ == "-" ? stderr : stdout;
    std::fputs(printable_lines(cluster::describe(cluster)).c_str(), stream);
    std::vector<cluster::Reached> reached;
    Interrupts interrupts;
    if (check_)
      reached = cluster::reach(cluster, std::chrono::seconds(timeout_s_),
                               [&] { return interrupts.received() != 0; });
    bool all = true;
    for (const cluster::Reached& other : reached) {
      all = all && other.problem.empty();
      std::fprintf(stream, "%s at %s: %s\n", other.who.c_str(), printable(other.address).c_str(),
                   other.problem.empty() ? "reached" : printable(other.problem).c_str());
    }
    if (meet_) meet(cluster, stream);
    if (!json_.empty()) write_json(cluster, reached);
    if (interrupts.received() != 0) return interrupts.exit_code();
    return all ? kOk : kFailed;
  }

 private:
  void meet(const cluster::Cluster& cluster, std::FILE* stream) {
    if (!cluster.trains() || cluster.rendezvous.empty())
      throw UsageError("--meet needs a job with several ranks");
    cluster::RendezvousOptions options = flags_.rendezvous();
    options.join_timeout = std::chrono::seconds(timeout_s_);
    const auto rendezvous = cluster::open_rendezvous(cluster, options);
    rendezvous->join({{"version", version()}});
    std::fprintf(stream, "met all %d ranks, of one version\n", cluster.world);
  }

  static std::string printable_lines(const std::string& text) {
    std::string lines;
    for (const std::string& line : split(text, '\n'))
      if (!line.empty()) lines += printable(line) + "\n";
    return lines;
  }

  void write_json(const cluster::Cluster& cluster,
                  const std::vector<cluster::Reached>& reached) const {
    Json json{{"role", cluster::name_of(cluster.role)},
              {"index", cluster.index},
              {"rank", cluster.rank},
              {"world", cluster.world},
              {"local_rank", cluster.local_rank},
              {"local_world", cluster.local_world},
              {"rendezvous", cluster.rendezvous},
              {"source", cluster.source}};
    json["peers"] = Json::array();
    for (const cluster::Peer& peer : cluster.peers)
      json["peers"].push_back({{"role", cluster::name_of(peer.role)},
                               {"index", peer.index},
                               {"address", peer.address}});
    if (check_) json["reached"] = Json::array();
    for (const cluster::Reached& other : reached)
      json["reached"].push_back(
          {{"who", other.who}, {"address", other.address}, {"problem", other.problem}});
    write_output(json_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  ClusterFlags flags_;
  bool meet_ = false;
  bool check_ = false;
  int timeout_s_ = 10;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> make_cluster(CLI::App& program) {
  return std::make_unique<ClusterCommand>(program);
}

}  // namespace penstock::tool
