#include <utility>

#include <penstock/internal/module.h>

#include "cluster/net/module.h"

namespace penstock::cluster {
namespace {

const NetModule& load() {
  const auto of_this_version = [](void* symbol) {
    return reinterpret_cast<NetModuleFn>(symbol)()->version == NetModule::kVersion;
  };
  try {
    return *reinterpret_cast<NetModuleFn>(
        module_symbol("libpenstock_cluster.so", kNetModuleSymbol, of_this_version))();
  } catch (const Error& error) {
    throw Error(ErrorCode::not_found,
                "this build can't talk to other processes (PENSTOCK_CLUSTER): " + error.cause());
  }
}

}  // namespace

const NetModule& net_module() {
  static const NetModule& module = load();
  return module;
}

std::unique_ptr<Rendezvous> open_rendezvous(const Cluster& cluster,
                                            const RendezvousOptions& options) {
  return net_module().open(cluster, options);
}

std::unique_ptr<ProcessGroup> open_process_group(Rendezvous& rendezvous, const Cluster& cluster,
                                                 const ProcessGroupOptions& options) {
  return net_module().open_group(rendezvous, cluster, options);
}

std::unique_ptr<ServedParameters> serve_parameters(towers::ParameterServer& server,
                                                   const std::string& address,
                                                   const RendezvousOptions& options,
                                                   std::function<void()> look) {
  return net_module().serve(server, address, options, std::move(look));
}

std::unique_ptr<towers::ParameterServer> open_parameter_server(const std::string& name,
                                                               const std::string& address,
                                                               const RendezvousOptions& options) {
  return net_module().open_server(name, address, options);
}

}  // namespace penstock::cluster
