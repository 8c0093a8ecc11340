#include "cluster/net/server.h"

#include <chrono>

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "cluster/net/credentials.h"

namespace penstock::cluster {
namespace {

constexpr int kMostBytesOfMessage = 2 << 20;

}  // namespace

RendezvousServer::RendezvousServer(const std::string& address, int world,
                                   const RendezvousOptions& options)
    : RendezvousState(world, options.peer_timeout), token_(options.token) {
  check_exposure(address, options);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, server_credentials(options.tls), &port);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMostBytesOfMessage);
  // Without this, two processes could listen at one port, and would form two jobs.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(grpc::ResourceQuota("rendezvous").SetMaxThreads(16));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0)
    throw Error(ErrorCode::unavailable,
                "can't listen at " + address + ": the address is taken, or not this host's");
}

RendezvousServer::~RendezvousServer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

template <typename Answer>
grpc::Status RendezvousServer::guarded(const grpc::ServerContext& context, Answer answer) noexcept {
  try {
    if (!shows_token(context, token_)) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return {grpc::StatusCode::PERMISSION_DENIED, "not this job's token"};
    }
    answer();
    return grpc::Status::OK;
  } catch (const std::exception&) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "rank 0 is out of memory"};
  }
}

grpc::Status RendezvousServer::Join(grpc::ServerContext* context, const wire::JoinRequest* request,
                                    wire::JoinReply* reply) {
  return guarded(*context, [&] { *reply = join(*request); });
}

grpc::Status RendezvousServer::Beat(grpc::ServerContext* context, const wire::BeatRequest* request,
                                    wire::BeatReply* reply) {
  return guarded(*context, [&] { *reply = beat(*request); });
}

grpc::Status RendezvousServer::Put(grpc::ServerContext* context, const wire::PutRequest* request,
                                   wire::PutReply* reply) {
  return guarded(*context, [&] { *reply = put(*request); });
}

grpc::Status RendezvousServer::Get(grpc::ServerContext* context, const wire::GetRequest* request,
                                   wire::GetReply* reply) {
  return guarded(*context, [&] { *reply = get(*request); });
}

}  // namespace penstock::cluster
