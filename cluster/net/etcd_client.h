// Calls of etcd's gRPC interface, each with a time limit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <penstock/internal/thread_annotations.h>

#include "cluster/net/etcd.grpc.pb.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// True if a retry may succeed, because etcd is unreachable, has no leader, or is busy.
bool may_pass(const grpc::Status& sent);

/// A client of etcd. If one member does not answer a call, the client sends it to the next one, and
/// asks each member once. Thread-safe.
class EtcdClient {
 public:
  /// `limit` is the time for one member's answer. Throws what `channel_credentials` throws.
  EtcdClient(const std::vector<std::string>& members, const TlsFiles& tls,
             std::chrono::milliseconds limit);
  ~EtcdClient();

  grpc::Status range(const etcdserverpb::RangeRequest& request,
                     etcdserverpb::RangeResponse& reply) const;
  grpc::Status txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& reply) const;
  /// `limit` is the time for one member's answer to this call.
  grpc::Status txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& reply,
                   std::chrono::milliseconds limit) const;
  grpc::Status grant(std::chrono::seconds ttl, etcdserverpb::LeaseGrantResponse& reply) const;
  /// Renews a lease. A TTL of 0 in the reply means that the lease no longer exists.
  grpc::Status keep_alive(std::int64_t lease, etcdserverpb::LeaseKeepAliveResponse& reply) const;
  grpc::Status revoke(std::int64_t lease) const;

  /// Tells `told` of changes to the keys of `request`. Returns when `told` returns false, `hang_up`
  /// is called, or the connection is lost; at once if `stop` was requested. One watch at a time.
  grpc::Status watch(const etcdserverpb::WatchCreateRequest& request, const std::stop_token& stop,
                     const std::function<bool(const etcdserverpb::WatchResponse&)>& told)
      EXCLUDES(mutex_);
  /// Ends the current watch, if there is one.
  void hang_up() const noexcept EXCLUDES(mutex_);

 private:
  struct Member;

  template <typename Call>
  grpc::Status ask(Call call, std::chrono::milliseconds limit) const;
  template <typename Call>
  grpc::Status ask(Call call) const {
    return ask(call, limit_);
  }
  void prepare(grpc::ClientContext& context, std::chrono::milliseconds limit) const;

  const std::chrono::milliseconds limit_;
  std::vector<std::unique_ptr<Member>> members_;
  mutable std::atomic<std::size_t> preferred_{0};  // the member that answered last
  mutable Mutex mutex_;
  grpc::ClientContext* watching_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace penstock::cluster
