// The interface between the program and the module that talks to other processes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/parameter_servers.h"
#include "cluster/process_group.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

struct NetModule {
  static constexpr int kVersion = 3;
  int version = kVersion;
  std::unique_ptr<Rendezvous> (*open)(const Cluster&, const RendezvousOptions&) = nullptr;
  std::unique_ptr<ProcessGroup> (*open_group)(Rendezvous&, const Cluster&,
                                              const ProcessGroupOptions&) = nullptr;
  std::unique_ptr<ServedParameters> (*serve)(towers::ParameterServer&, const std::string&,
                                             const RendezvousOptions&,
                                             std::function<void()>) = nullptr;
  std::unique_ptr<towers::ParameterServer> (*open_server)(const std::string&, const std::string&,
                                                          const RendezvousOptions&) = nullptr;
};

/// The name under which the module exports a `NetModuleFn`.
inline constexpr const char* kNetModuleSymbol = "penstock_cluster_module";
using NetModuleFn = const NetModule* (*)();

/// Opens the module once. Throws Error{not_found}, which says why, if it cannot be opened.
const NetModule& net_module();

}  // namespace penstock::cluster
