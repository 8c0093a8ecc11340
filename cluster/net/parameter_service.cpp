// Serves a parameter server by gRPC.
#include <algorithm>
#include <atomic>
#include <stop_token>
#include <utility>

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "cluster/net/acceptor.h"
#include "cluster/net/credentials.h"
#include "cluster/net/open.h"
#include "cluster/net/parameter_answers.h"
#include "cluster/net/parameter_channel.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;
using AskStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

class ParameterService final : public ServedParameters, private grpc::Service {
 public:
  ParameterService(towers::ParameterServer& server, const std::string& address,
                   const RendezvousOptions& options, std::function<void()> look)
      : token_(options.token), answers_(server), look_(std::move(look)) {
    check_exposure(address, options);
    // This is the code that protoc would generate for a service whose messages are bytes.
    AddMethod(new grpc::internal::RpcServiceMethod(
        kParameterMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<ParameterService, grpc::ByteBuffer,
                                                 grpc::ByteBuffer>(
            [](ParameterService* service, grpc::ServerContext* context, AskStream* stream) {
              return service->answer(*context, *stream);
            },
            this)));
    listen(address, options);
    const milliseconds interval = std::max(milliseconds(5), options.peer_timeout / 5);
    if (look_)
      thread_ = start_thread("looking who is lost", [this, interval](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          look_();
          const auto next = std::chrono::steady_clock::now() + interval;
          const MutexLock lock(mutex_);
          while (!stop.stop_requested() && std::chrono::steady_clock::now() < next)
            wake_.wait_until(mutex_, stop, next);
        }
      });
  }
  ~ParameterService() override {
    thread_ = {};
    acceptor_->stop();
    server_->Shutdown(std::chrono::system_clock::now() + milliseconds(500));
  }

  std::size_t refused() const noexcept override { return refused_.load(); }
  std::uint64_t received() const noexcept override { return received_.load(); }
  std::uint64_t sent() const noexcept override { return sent_.load(); }

 private:
  /// Counts the bytes of a call's messages.
  class Counted final : public Messages {
   public:
    Counted(ParameterService& service, AskStream& stream) : service_(service), stream_(stream) {}
    bool read(grpc::ByteBuffer& message) override {
      if (!stream_.Read(&message)) return false;
      service_.received_ += message.Length();
      return true;
    }
    bool write(const grpc::ByteBuffer& message) override {
      service_.sent_ += message.Length();
      return stream_.Write(message);
    }

   private:
    ParameterService& service_;
    AskStream& stream_;
  };

  grpc::Status answer(const grpc::ServerContext& context, AskStream& stream) noexcept {
    try {
      if (!shows_token(context, token_)) {
        ++refused_;
        return {grpc::StatusCode::PERMISSION_DENIED, "not this job's token"};
      }
      Counted messages(*this, stream);
      acceptor_->keep(context.peer());
      answers_.answer(messages);
      return grpc::Status::OK;
    } catch (const std::exception&) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the parameter server is out of memory"};
    }
  }

  void listen(const std::string& address, const RendezvousOptions& options) {
    grpc::ServerBuilder builder;
    constexpr std::size_t kMostPeers = 256;  // that come at the same moment
    acceptor_ = std::make_unique<Acceptor>(builder, address, options.tls,
                                           Acceptor::most_strangers(kMostPeers),
                                           Acceptor::from_of(options), options.peer_timeout);
    builder.RegisterService(this);
    builder.SetMaxReceiveMessageSize(kMostBytesOfPart);
    for (const auto& [name, value] : bulk_arguments(options.peer_timeout))
      builder.AddChannelArgument(name, value);
    // Clients check whether a silent server is alive.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 4);
    // One thread for each call, since some calls wait for tokens.
    builder.SetResourceQuota(grpc::ResourceQuota("parameters").SetMaxThreads(4096));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) throw Error(ErrorCode::unavailable, "can't serve at " + address);
    acceptor_->start();
  }

  const std::string token_;
  ParameterAnswers answers_;
  const std::function<void()> look_;
  std::atomic<std::size_t> refused_{0};
  std::atomic<std::uint64_t> received_{0}, sent_{0};
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  StoppableCondVar wake_;
  Thread thread_;
};

}  // namespace

std::unique_ptr<ServedParameters> serve_by_grpc(towers::ParameterServer& server,
                                                const std::string& address,
                                                const RendezvousOptions& options,
                                                std::function<void()> look) {
  quiet_grpc();
  keep_grpc();
  keep_freed_memory();
  return std::make_unique<ParameterService>(server, address, options, std::move(look));
}

}  // namespace penstock::cluster
