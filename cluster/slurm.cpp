#include "cluster/slurm.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/hostlist.h"
#include "cluster/members.h"
#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

/// Slurm gives numbers from here on to what is no step that srun started: shells, batch scripts.
constexpr std::uint64_t kFirstOfNoStep = 0xffff'fff0;

/// Parses a whole number from 1 on; nothing for other text.
std::optional<int> count_in(std::string_view text) {
  int count = 0;
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (wrong != std::errc() || rest != text.data() + text.size() || count < 1) return std::nullopt;
  return count;
}

/// Parses "2(x3),1", the number of tasks on each node. Returns that of the node with this index.
int tasks_on(const Environment& environment, const char* name, int node) {
  std::string_view text = *environment.find(name);
  int index = node;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    std::optional<int> times = 1;
    if (const std::size_t repeat = part.find("(x");
        repeat != std::string_view::npos && part.ends_with(')')) {
      times = count_in(part.substr(repeat + 2, part.size() - repeat - 3));
      part = part.substr(0, repeat);
    }
    const std::optional<int> tasks = count_in(part);
    if (!tasks || !times)
      refuse(said(environment, name) + " is not a list of task counts, such as 2(x3),1");
    if (index < *times) return *tasks;
    index -= *times;
    if (comma == std::string_view::npos)
      refuse(said(environment, name) + " and SLURM_NODEID=" + std::to_string(node) +
             " contradict each other: there is no such node");
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::optional<Claim> slurm_claim(const Environment& environment) {
  const std::optional<std::uint64_t> step = environment.large_number(kSlurmStep);
  if (!step || *step >= kFirstOfNoStep) return std::nullopt;
  LauncherVariables names = kSlurm;
  if (environment.has("SLURM_STEP_NUM_TASKS")) names.world = "SLURM_STEP_NUM_TASKS";
  std::optional<Claim> claim = numbered_claim(environment, names);
  if (!claim)
    refuse(said(environment, kSlurmStep) + " is set, but neither " + names.rank + " nor " +
           names.world + ": which task of the step is this process?");
  claim->may_be_outer = true;
  Cluster& cluster = claim->cluster;
  const char* list =
      environment.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST";
  const std::string* hosts = environment.find(list);
  std::optional<int> nodes = environment.number("SLURM_STEP_NUM_NODES", 1);
  if (!nodes) nodes = environment.number("SLURM_NNODES", 1);
  if (!nodes && hosts != nullptr) nodes = static_cast<int>(hosts_in(*hosts, 2, list).size());
  constexpr const char* kTasks = "SLURM_STEP_TASKS_PER_NODE";
  if (environment.has(kTasks))
    cluster.local_world =
        tasks_on(environment, kTasks, environment.number("SLURM_NODEID").value_or(0));
  else if (nodes == 1)
    cluster.local_world = cluster.world;
  if (cluster.local_rank >= cluster.local_world || cluster.local_world > cluster.world)
    refuse(said(environment, kTasks) + ", " + names.local_rank + "=" +
           std::to_string(cluster.local_rank) + " and " + claim->world_said +
           " contradict each other");
  std::uint64_t mixed = environment.large_number("SLURM_JOB_ID").value_or(0) * 31;
  std::uint64_t digits = 0;
  for (const char c : *environment.find(kSlurmStep))
    digits = digits * 10 + static_cast<unsigned char>(c);
  mixed += digits;
  if (nodes == 1) {
    cluster.rendezvous = "grpc://127.0.0.1:" + port_of(mixed);
  } else if (hosts != nullptr) {
    const std::string address = first_host(*hosts, list) + ":" + port_of(mixed);
    check_address(address, list);
    cluster.rendezvous = "grpc://" + address;
  }
  return claim;
}

}  // namespace penstock::cluster
