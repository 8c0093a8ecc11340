#include "cluster/net/etcd_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>

#include "cluster/net/credentials.h"

namespace penstock::cluster {
namespace {

/// Enough for the facts of 4,096 ranks.
constexpr int kMostBytesOfReply = 64 << 20;

}  // namespace

struct EtcdClient::Member {
  explicit Member(const std::shared_ptr<grpc::Channel>& channel)
      : keys(etcdserverpb::KV::NewStub(channel)),
        leases(etcdserverpb::Lease::NewStub(channel)),
        watches(etcdserverpb::Watch::NewStub(channel)) {}

  const std::unique_ptr<etcdserverpb::KV::Stub> keys;
  const std::unique_ptr<etcdserverpb::Lease::Stub> leases;
  const std::unique_ptr<etcdserverpb::Watch::Stub> watches;
};

bool may_pass(const grpc::Status& sent) {
  switch (sent.error_code()) {
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
      return false;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return sent.error_message().find("space") == std::string::npos;
    default:
      return true;
  }
}

EtcdClient::EtcdClient(const std::vector<std::string>& members, const TlsFiles& tls,
                       std::chrono::milliseconds limit)
    : limit_(limit) {
  for (const std::string& member : members) {
    grpc::ChannelArguments arguments = patient_channel();
    arguments.SetMaxReceiveMessageSize(kMostBytesOfReply);
    members_.push_back(std::make_unique<Member>(
        grpc::CreateCustomChannel(member, channel_credentials(tls), arguments)));
  }
}

EtcdClient::~EtcdClient() = default;

void EtcdClient::prepare(grpc::ClientContext& context, std::chrono::milliseconds limit) const {
  context.set_deadline(std::chrono::system_clock::now() + limit);
  context.AddMetadata("hasleader", "true");  // a member without a quorum then reports that
}

template <typename Call>
grpc::Status EtcdClient::ask(Call call, std::chrono::milliseconds limit) const {
  grpc::Status sent;
  const std::size_t first = preferred_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::size_t at = (first + i) % members_.size();
    grpc::ClientContext context;
    prepare(context, limit);
    sent = call(*members_[at], context);
    if (!sent.ok() && may_pass(sent)) continue;
    // The watch may hang at the member that no longer answers.
    if (preferred_.exchange(at, std::memory_order_relaxed) != at) hang_up();
    break;
  }
  return sent;
}

grpc::Status EtcdClient::range(const etcdserverpb::RangeRequest& request,
                               etcdserverpb::RangeResponse& reply) const {
  return ask([&](Member& member, grpc::ClientContext& context) {
    return member.keys->Range(&context, request, &reply);
  });
}

grpc::Status EtcdClient::txn(const etcdserverpb::TxnRequest& request,
                             etcdserverpb::TxnResponse& reply) const {
  return txn(request, reply, limit_);
}

grpc::Status EtcdClient::txn(const etcdserverpb::TxnRequest& request,
                             etcdserverpb::TxnResponse& reply,
                             std::chrono::milliseconds limit) const {
  return ask(
      [&](Member& member, grpc::ClientContext& context) {
        return member.keys->Txn(&context, request, &reply);
      },
      limit);
}

grpc::Status EtcdClient::grant(std::chrono::seconds ttl,
                               etcdserverpb::LeaseGrantResponse& reply) const {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(ttl.count());
  return ask([&](Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseGrant(&context, request, &reply);
  });
}

grpc::Status EtcdClient::revoke(std::int64_t lease) const {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse reply;
  return ask([&](Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseRevoke(&context, request, &reply);
  });
}

grpc::Status EtcdClient::keep_alive(std::int64_t lease,
                                    etcdserverpb::LeaseKeepAliveResponse& reply) const {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  return ask([&](Member& member, grpc::ClientContext& context) {
    const auto stream = member.leases->LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&reply);
    stream->WritesDone();
    const grpc::Status ended = stream->Finish();
    return answered ? grpc::Status::OK : ended;
  });
}

grpc::Status EtcdClient::watch(
    const etcdserverpb::WatchCreateRequest& request, const std::stop_token& stop,
    const std::function<bool(const etcdserverpb::WatchResponse&)>& told) {
  grpc::ClientContext context;
  context.AddMetadata("hasleader", "true");
  {
    const MutexLock lock(mutex_);
    if (stop.stop_requested()) return grpc::Status::CANCELLED;
    watching_ = &context;
  }
  const std::size_t at = preferred_.load(std::memory_order_relaxed) % members_.size();
  const auto stream = members_[at]->watches->Watch(&context);
  etcdserverpb::WatchRequest first;
  *first.mutable_create_request() = request;
  bool more = stream->Write(first);
  etcdserverpb::WatchResponse response;
  try {
    while (more && stream->Read(&response)) more = told(response);
  } catch (...) {  // out of memory: treated as a lost connection
  }
  context.TryCancel();
  const grpc::Status ended = stream->Finish();
  const MutexLock lock(mutex_);
  watching_ = nullptr;
  return ended;
}

void EtcdClient::hang_up() const noexcept {
  const MutexLock lock(mutex_);
  if (watching_ != nullptr) watching_->TryCancel();
}

}  // namespace penstock::cluster
