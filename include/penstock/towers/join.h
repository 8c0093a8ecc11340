// Other processes that train with this one, on this machine or others.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <penstock/towers/peers.h>

namespace penstock::towers {

/// The job, and how its processes reach each other. Options that you leave unset are read from the
/// variables that mpirun, srun, torchrun or TF_CONFIG set (docs/cluster.md). Each option means the
/// same as the flag of that name of `penstock train`.
struct JoinOptions {
  std::string cluster{};      ///< "a:1,b:1", or JSON as in TF_CONFIG's "cluster"
  std::string role{};         ///< "chief" or "worker": other roles do not train
  std::optional<int> rank{};  ///< the place in the list of its role
  std::string rendezvous{};   ///< "grpc://host:port" of rank 0, or "etcd://host:port/job"
  std::string tls_certificate{}, tls_key{}, tls_authority{};  ///< PEM files; needed beyond loopback
  std::string token{};  ///< a secret that the whole job shares; needed beyond loopback
  /// "ordered", or "ring", whose bits depend on the number of processes.
  std::string exchange = "ordered";
  std::string compress = "none";  ///< or "bf16"
  /// "gloo" or "grpc". Empty: gloo on one host or with an interface, else grpc.
  std::string transport{};
  std::string interface {};  ///< network interface of gloo; empty: loopback
  bool insecure = false;     ///< allows unencrypted values over that interface
  /// A process that is silent for this long is lost.
  std::chrono::milliseconds peer_timeout{10'000};
  /// The time for all processes to arrive.
  std::chrono::milliseconds join_timeout{300'000};
  /// Settings that all processes must have in common, by name: "learning rate". A difference ends
  /// the job, naming the process that differs.
  std::map<std::string, std::string> facts{};
};

/// Meets the other processes, and returns the value for `StrategyOptions::peers`. It must outlive
/// the trainer. Returns null if the process is alone. The destructor waits until the other
/// processes are done, unless an error ended the job. Call `join` before other threads run, because
/// it sets NCCL's environment.
///
/// Throws Error{invalid_argument} naming the setting that is wrong or differs. Throws
/// Error{no_progress} naming the processes that did not arrive, and Error{unavailable} if rank 0
/// can't be reached. Throws Error{not_found} if Penstock was built without gRPC and Gloo.
std::unique_ptr<Peers> join(const JoinOptions& options = {});

}  // namespace penstock::towers
