// The processes of a job, and the place of this process among them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/environment.h"

namespace penstock::cluster {

enum class Role {
  chief,             ///< trains, and writes checkpoints and exports
  worker,            ///< trains
  parameter_server,  ///< holds variables ("ps")
  evaluator,         ///< evaluates checkpoints alongside training
};
/// Returns "chief", "worker", "ps" or "evaluator".
std::string_view name_of(Role role) noexcept;
/// Returns the role of this name. "master" is an old name of the chief. Throws
/// Error{invalid_argument}, which lists the names, for any other.
Role parse_role(std::string_view name);

/// A process of the job.
struct Peer {
  Role role = Role::worker;
  int index = 0;  ///< its number within its role
  /// "host:port". Empty: the launcher does not give it.
  std::string address{};

  friend bool operator==(const Peer&, const Peer&) = default;
};

/// The job as this process sees it. The chief and the workers train. They have ranks from 0, the
/// chief first; the other processes have no rank.
struct Cluster {
  Role role = Role::chief;
  /// Its number within its role.
  int index = 0;
  /// Its number among the processes that train. -1: it does not train.
  int rank = 0;
  int world = 1;  ///< the number of processes that train
  int local_rank = 0;
  /// The number of processes on this host that train, this one included.
  int local_world = 1;
  /// All processes of the job: the chief first, then workers, parameter servers and evaluators. An
  /// evaluator that no list names is left out.
  std::vector<Peer> peers{};
  /// Where the ranks meet: "grpc://host:port" of rank 0, or "etcd://host:port,host:port/job".
  /// Empty: the process is alone.
  std::string rendezvous{};
  /// Where this came from: "TF_CONFIG", "torchrun", "Open MPI", "PMI", "Slurm" or "flags". For a
  /// process that is alone, "PENSTOCK_ALONE", or "none" if nothing says so.
  std::string source{};

  bool trains() const noexcept { return rank >= 0; }
  bool is_chief() const noexcept { return rank == 0; }
  /// True if the job has a process of this role that is listed.
  bool lists(Role listed) const noexcept;
  /// Returns the number of processes on this host that compute, this one included if it does. These
  /// are the processes that train, and listed evaluators. At least 1.
  int computing_here() const;
  /// True if the ranks meet on a loopback address, so that all of them are on this host.
  bool is_on_one_host() const;
};

/// The job as the command line describes it. Fields that are not set are looked up in the
/// environment.
struct ClusterFlags {
  /// "worker=a:1,b:1;ps=c:1", "a:1,b:1" (chief and workers), or JSON as in TF_CONFIG's "cluster".
  std::string cluster{};
  /// Default: worker, or chief if the list has no workers.
  std::string role{};
  /// The process's place in the list of its role.
  std::optional<int> rank{};
  std::string rendezvous{};  ///< see Cluster::rendezvous
};

/// Returns the job from the first source that describes it: flags, TF_CONFIG, torchrun (RANK), Open
/// MPI, PMI, Slurm. Further sources must agree with it, except for a launcher that may have started
/// another launcher. With PENSTOCK_ALONE=1 the process is alone, whatever launchers say.
///
/// Throws Error{invalid_argument} if variables contradict each other, which names them, or if one
/// is wrong, which says how. Also throws it for variables of launchers that say too little to find
/// the process's place: such a process is never taken for a job of its own. Sources: TensorFlow's
/// TFConfigClusterResolver, and the manuals of torchrun, Open MPI and Slurm.
Cluster resolve(const Environment& environment, const ClusterFlags& flags = {});

/// Returns the numbers of the CUDA devices that this process uses, out of `visible` ones. These are
/// an equal share of the host's devices, or all visible ones if the launcher has already restricted
/// them (CUDA_VISIBLE_DEVICES). Throws Error{invalid_argument} if the devices cannot be divided
/// equally.
std::vector<int> devices_of(const Cluster& cluster, int visible, const Environment& environment);

/// Returns the CUDA device of a process with one tower: "cuda:0" if the launcher left it only its
/// own device, else the device with the number of its place on the host.
std::string own_device(const Cluster& cluster, const Environment& environment);

/// Returns text for people: role, source, rendezvous, and a line for each peer.
std::string describe(const Cluster& cluster);

}  // namespace penstock::cluster
