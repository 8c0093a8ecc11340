// The parameter servers of a job, for the processes that are one and for those that use them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/error.h>
#include <penstock/towers/strategy.h>
#include <penstock/towers/trainer.h>

#include "cluster/cluster.h"
#include "cluster/parameter_servers.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"
#include "towers/servers/pulse.h"
#include "towers/servers/served_job.h"

namespace penstock::tool {

/// Returns the addresses of the job's parameter servers, in their order.
std::vector<std::string> parameter_servers_of(const cluster::Cluster& cluster);

/// Returns a list of devices that every host has, for a process that computes nothing: a host
/// device instead of each cuda device. Throws Error{invalid_argument} for a name that is no cuda
/// device's.
std::string stand_ins(const std::string& devices);

/// Throws the errors with which the job's chief refuses these options and the data that `open`
/// opens. Data that this host lacks, unless it is the chief's, are only a warning.
void check_as_chief(const cluster::Cluster& cluster, towers::TrainOptions options,
                    const std::function<Dataset()>& open);

/// Runs this process's parameter server until the chief has ended the run. Returns the exit code:
/// kOk, or kNoProgress if the run was lost; then it also prints the reason on stderr. Throws the
/// errors of `serve_parameters`.
int be_parameter_server(const cluster::Cluster& cluster, const cluster::RendezvousOptions& options,
                        Interrupts& interrupts);

/// The parameter servers of a job, for a process that trains; there may be none.
class JobServers {
 public:
  /// With async and sync_replicas, the servers hold the variables, and `strategy` is set up to use
  /// them. With other strategies they hold nothing: the chief begins and ends a run on them, so
  /// that they end with it. Throws UsageError for async and sync_replicas with several processes
  /// and no server. Throws the errors of `ParameterServer::begin`.
  JobServers(const cluster::Cluster& cluster, const cluster::RendezvousOptions& options,
             towers::StrategyOptions& strategy, const cluster::Facts& facts);
  JobServers(const JobServers&) = delete;
  JobServers& operator=(const JobServers&) = delete;
  /// Ends the run on servers that hold nothing. The run ends with an error unless `ended` was
  /// called with kOk.
  ~JobServers();

  /// True if processes meet only at the parameter servers.
  bool hold_variables() const noexcept { return !job_.servers.empty() && run_.empty(); }
  /// Records the exit code of this process, and returns it.
  int ended(int code) noexcept {
    if (code == kOk) why_ = {};
    return code;
  }
  void failed(const Status& why) noexcept { why_ = why; }
  /// True for an error that means that other processes are lost, or that they consider this one
  /// lost.
  bool is_loss(const Status& why) const;

 private:
  towers::ServedJob job_;
  std::string run_;                       // on servers that hold nothing
  std::unique_ptr<towers::Pulse> pulse_;  // to the same servers
  Status why_;
};

}  // namespace penstock::tool
