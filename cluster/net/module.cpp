// The module's entry.
#include "cluster/net/module.h"

#include "cluster/net/open.h"
#include "cluster/net/worker_transport.h"

extern "C" __attribute__((visibility("default"))) const penstock::cluster::NetModule*
penstock_cluster_module() {
  static const penstock::cluster::NetModule module{
      penstock::cluster::NetModule::kVersion, &penstock::cluster::open_either,
      &penstock::cluster::open_group, &penstock::cluster::serve_by_grpc,
      &penstock::cluster::open_by_grpc};
  return &module;
}

extern "C" __attribute__((visibility("default"))) const penstock::WorkerTransport*
penstock_worker_transport() {
  static const penstock::WorkerTransport transport{
      penstock::WorkerTransport::kVersion, &penstock::cluster::connect_to_worker,
      &penstock::cluster::listen_for_runs, &penstock::cluster::watch_workers,
      &penstock::cluster::announce_worker};
  return &transport;
}
