// The functions that the module offers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cluster/parameter_servers.h"
#include "cluster/process_group.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// Opens a rendezvous at "grpc://host:port" or in etcd. See `open_rendezvous`.
std::unique_ptr<Rendezvous> open_either(const Cluster& cluster, const RendezvousOptions& options);

inline constexpr std::string_view kGrpcScheme = "grpc://";
/// REQUIRES: cluster.rendezvous.starts_with(kGrpcScheme).
std::unique_ptr<Rendezvous> open_grpc(const Cluster& cluster, const RendezvousOptions& options);
/// REQUIRES: cluster.rendezvous.starts_with(kEtcdScheme).
std::unique_ptr<Rendezvous> open_etcd(const Cluster& cluster, const RendezvousOptions& options);

/// See `open_process_group`.
std::unique_ptr<ProcessGroup> open_group(Rendezvous& rendezvous, const Cluster& cluster,
                                         const ProcessGroupOptions& options);

/// See `serve_parameters` and `open_parameter_server`.
std::unique_ptr<ServedParameters> serve_by_grpc(towers::ParameterServer& server,
                                                const std::string& address,
                                                const RendezvousOptions& options,
                                                std::function<void()> look);
std::unique_ptr<towers::ParameterServer> open_by_grpc(const std::string& name,
                                                      const std::string& address,
                                                      const RendezvousOptions& options);

/// Returns an id that tells processes of one rank apart.
std::string new_incarnation();
/// A guard that keeps gRPC initialised. Each user of etcd holds one, which outlives its
/// connections. At its end gRPC's threads have ended too, except the ones that connect. These find
/// OpenSSL still initialised when the process exits, unless other code used OpenSSL earlier.
class GrpcLife {
 public:
  GrpcLife();
  GrpcLife(const GrpcLife&) = delete;
  GrpcLife& operator=(const GrpcLife&) = delete;
  ~GrpcLife();
};

/// Keeps gRPC initialised until the process ends, for connections that come and go with each run.
/// Otherwise gRPC's shutdown waits for 10 s or 20 s if a large message has ever had to wait for the
/// other side to take it. A gRPC thread watches such messages, and does not wake up earlier.
void keep_grpc();

/// Makes malloc keep freed memory for reuse. Each message is read into new memory, and a third of
/// the values' transfer time went into pages that the system had taken back and cleared. This
/// affects the whole process. It keeps up to 32 MiB for each arena of malloc, and 128 MiB for the
/// first.
void keep_freed_memory() noexcept;

/// Silences gRPC and protobuf. Our errors report what they would print, and strangers must not be
/// able to make them print.
void quiet_grpc();

}  // namespace penstock::cluster
