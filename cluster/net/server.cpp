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
  acceptor_ = std::make_unique<Acceptor>(builder, address, options.tls,
                                         Acceptor::most_strangers(static_cast<std::size_t>(world)),
                                         Acceptor::from_of(options));
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMostBytesOfMessage);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(grpc::ResourceQuota("rendezvous").SetMaxThreads(16));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw Error(ErrorCode::unavailable, "can't serve at " + address);
  acceptor_->start();
}

RendezvousServer::~RendezvousServer() {
  acceptor_->stop();
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
  return guarded(*context, [&] {
    *reply = join(*request);
    if (!reply->refused().ended()) acceptor_->keep(context->peer());
  });
}

grpc::Status RendezvousServer::Beat(grpc::ServerContext* context, const wire::BeatRequest* request,
                                    wire::BeatReply* reply) {
  return guarded(*context, [&] {
    *reply = beat(*request);
    if (knows(request->rank(), request->incarnation())) acceptor_->keep(context->peer());
  });
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
