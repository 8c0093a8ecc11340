// The rendezvous as rank 0 serves it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include <grpcpp/server.h>

#include "cluster/net/acceptor.h"
#include "cluster/net/rendezvous.grpc.pb.h"
#include "cluster/net/state.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// A server that gives access to a job's state to processes that carry its token. Thread-safe.
class RendezvousServer final : public wire::Rendezvous::Service, public RendezvousState {
 public:
  /// Throws what `open_rendezvous` throws.
  RendezvousServer(const std::string& address, int world, const RendezvousOptions& options);
  ~RendezvousServer() override;

  std::size_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

  grpc::Status Join(grpc::ServerContext* context, const wire::JoinRequest* request,
                    wire::JoinReply* reply) override;
  grpc::Status Beat(grpc::ServerContext* context, const wire::BeatRequest* request,
                    wire::BeatReply* reply) override;
  grpc::Status Put(grpc::ServerContext* context, const wire::PutRequest* request,
                   wire::PutReply* reply) override;
  grpc::Status Get(grpc::ServerContext* context, const wire::GetRequest* request,
                   wire::GetReply* reply) override;

 private:
  template <typename Answer>
  grpc::Status guarded(const grpc::ServerContext& context, Answer answer) noexcept;

  const std::string token_;
  std::atomic<std::size_t> refused_{0};
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace penstock::cluster
