#include "cluster/net/open.h"

#include <cstdlib>
#include <random>

#include <absl/base/internal/sysinfo.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <malloc.h>
#include <openssl/crypto.h>

#include "cluster/etcd_address.h"
#include "cluster/net/room.h"

namespace penstock::cluster {

std::unique_ptr<Rendezvous> open_either(const Cluster& cluster, const RendezvousOptions& options) {
  if (cluster.rendezvous.starts_with(kGrpcScheme)) return open_grpc(cluster, options);
  if (cluster.rendezvous.starts_with(kEtcdScheme)) return open_etcd(cluster, options);
  throw Error(ErrorCode::invalid_argument,
              "a rendezvous at " + cluster.rendezvous + " is not supported by this build");
}

std::string new_incarnation() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random());
}

namespace {

// When the process exits, gRPC's threads may still be in a handshake with a peer that does not
// answer. They would crash if OpenSSL had freed its state by then.
void begin_grpc() {
  require_room_for_grpc();
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  grpc_init();
  // Abseil looks for this in a file when the first two threads of a process wait for one mutex.
  // That sets errno, which gRPC 1.51 reads too late after connect(2): it would say that a process
  // "was not reached: No such file or directory".
  static_cast<void>(absl::base_internal::NominalCPUFrequency());
}

}  // namespace

GrpcLife::GrpcLife() {
  begin_grpc();
}
GrpcLife::~GrpcLife() {
  grpc_shutdown_blocking();
}

void keep_grpc() {
  static const bool kept = [] {
    begin_grpc();
    return true;
  }();
  static_cast<void>(kept);
}

void keep_freed_memory() noexcept {
#ifdef __GLIBC__
  static const bool kept = [] {
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    // Once a threshold is set, glibc trims the arenas of all threads but the first to this size
    // whenever memory at their end is freed, independent of the thresholds (heap_trim).
    mallopt(M_TOP_PAD, 32 << 20);
    return true;
  }();
  static_cast<void>(kept);
#endif
}

void quiet_grpc() {
  static const bool quiet = [] {
    if (std::getenv("GRPC_VERBOSITY") != nullptr) return false;
    gpr_set_log_function([](gpr_log_func_args*) {});
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  static_cast<void>(quiet);
}

}  // namespace penstock::cluster
