// The flags of commands that take part in a job of several processes.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cluster/job.h"

namespace penstock::tool {

/// The flags that place a process in its job, and that say how its values are exchanged.
class ClusterFlags {
 public:
  /// Adds the flags for the identity of this process and for the rendezvous.
  void add_to(CLI::App& app);
  /// Adds the flags for the exchange of values.
  void add_exchange_to(CLI::App& app);

  /// Returns the job and the place of this process in it. Throws Error{invalid_argument}.
  cluster::Cluster resolve() const;
  /// Does the same, and sets the rank of reports. REQUIRES: no dataset was iterated yet.
  cluster::Cluster resolve_for_reports() const;
  /// Returns `list`; but for "cuda", the device for the place of this process on its host.
  std::string devices(const std::string& list) const;
  /// Returns the settings of the exchange, which must be equal in all processes of a job.
  cluster::Facts facts() const { return {{"exchange", exchange_ + ", compress " + compress_}}; }
  /// Returns the options of the rendezvous. Throws UsageError for a token that can't be read.
  cluster::RendezvousOptions rendezvous() const;
  /// True if gradients are rounded for the exchange.
  bool compresses() const noexcept { return compress_ != "none"; }
  /// Meets the other processes of the job. Returns null if this process is the only one. Throws the
  /// errors of cluster::Job. REQUIRES: the process trains.
  std::unique_ptr<cluster::Job> join(const cluster::Facts& facts) const;

 private:
  cluster::Transport transport(const cluster::Cluster& cluster) const;

  cluster::ClusterFlags flags_;
  cluster::TlsFiles tls_;
  std::string token_file_;
  double peer_timeout_s_ = 10;
  double join_timeout_s_ = 300;
  std::string exchange_ = "ordered";
  std::string compress_ = "none";
  std::string transport_;
  std::string interface_;
  bool insecure_ = false;
};

}  // namespace penstock::tool
