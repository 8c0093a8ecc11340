// Links between runs and input workers, from both ends.
#include <algorithm>
#include <atomic>
#include <list>
#include <utility>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <penstock/internal/thread_annotations.h>

#include "cluster/net/acceptor.h"
#include "cluster/net/credentials.h"
#include "cluster/net/open.h"
#include "cluster/net/parameter_channel.h"
#include "cluster/net/worker_link.h"
#include "cluster/net/worker_transport.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;

/// The time without a sign of life after which a run is lost. Only the worker's memory waits for
/// it.
const milliseconds kRunTimeout = WorkerOptions{}.timeout;

/// Returns when to ping: gRPC pings after a part of the timeout without data, and waits another
/// part for the answer.
milliseconds asking_after(milliseconds timeout) {
  return timeout * 9 / 20;
}

class DialedToWorker final : public Dialed {
 public:
  DialedToWorker(StreamOwner& owner, grpc::GenericStub& stub) : Dialed(owner, 0), stub_(stub) {}
  void open() override {
    stub_.PrepareBidiStreamingCall(&context, kWorkerMethod, {}, this);
    Dialed::open();
  }

 private:
  grpc::GenericStub& stub_;
};

class DialedLink final : public WorkerLink {
 public:
  DialedLink(const std::string& address, const WorkerSecurity& security, milliseconds timeout,
             LinkListener& listener)
      : link_("the worker at " + address) {
    grpc::ChannelArguments arguments = patient_channel();
    arguments.SetMaxReceiveMessageSize(kMostBytesReceived);
    // Each link has its own connection, so that two runs of a process do not wait for each other's
    // messages.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(timeout.count()));
    for (const auto& [name, value] : bulk_arguments(asking_after(timeout)))
      arguments.SetInt(name, value);
    const TlsFiles tls = options_of(security).tls;
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, channel_credentials(tls), arguments));
    auto stream = std::make_unique<DialedToWorker>(link_, *stub_);
    if (!security.token.empty()) stream->context.AddMetadata(kTokenName, security.token);
    // Its owner keeps it alive for longer than the link.
    link_.begin(std::move(stream), std::shared_ptr<LinkListener>(&listener, [](LinkListener*) {}),
                timeout);
  }

  void send(WireBytes message) override { link_.send(std::move(message)); }
  void close() noexcept override { link_.close(); }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
  StreamLink link_;
};

class ListeningPort final : public WorkerPort, private grpc::CallbackGenericService {
 public:
  ListeningPort(const std::string& address, const WorkerSecurity& security, AcceptLink accept)
      : token_(security.token), accept_(std::move(accept)) {
    // Applies to all later servers of this process, to which it does no harm.
    static const bool health = [] {
      grpc::EnableDefaultHealthCheckService(true);
      return true;
    }();
    static_cast<void>(health);
    grpc::ServerBuilder builder;
    constexpr std::size_t kMostRuns = 192;  // that come at the same moment
    acceptor_ = std::make_unique<Acceptor>(builder, address, options_of(security).tls,
                                           Acceptor::most_strangers(kMostRuns),
                                           Acceptor::From::anyone, asking_after(kRunTimeout));
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(kMostBytesReceived);
    for (const auto& [name, value] : bulk_arguments(asking_after(kRunTimeout)))
      builder.AddChannelArgument(name, value);
    // Runs check whether a silent worker is alive.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    // Limits the handshakes of strangers.
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) throw Error(ErrorCode::unavailable, "can't serve at " + address);
    address_ = address.substr(0, address.rfind(':') + 1) + std::to_string(acceptor_->port());
    acceptor_->start();
  }
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;

  ~ListeningPort() override {
    acceptor_->stop();
    std::list<StreamLink> links;
    {
      const MutexLock lock(mutex_);
      closed_ = true;
      links.swap(links_);
    }
    for (StreamLink& link : links) link.end("the port was closed");
    links.clear();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  std::string address() const override { return address_; }
  void set_serving(bool serving) override {
    server_->GetHealthCheckService()->SetServingStatus(serving);
  }
  std::size_t refused() const noexcept override { return refused_.load(); }

 private:
  /// Tells the acceptor when the call of a link is accepted, and when it ends.
  class Call final : public LinkListener {
   public:
    Call(Acceptor& acceptor, std::string peer) : acceptor_(acceptor), peer_(std::move(peer)) {}
    /// REQUIRES: the link has not begun.
    void set(std::shared_ptr<LinkListener> listener) { listener_ = std::move(listener); }
    void admit() noexcept {
      if (!admitted_.exchange(true)) acceptor_.accepted(peer_);
    }
    void received(WireBytes message) noexcept override {
      acceptor_.received(peer_, message.size());
      listener_->received(std::move(message));
    }
    void lost(const Status& why) noexcept override {
      if (admitted_.exchange(true)) acceptor_.ended(peer_);
      listener_->lost(why);
    }

   private:
    std::shared_ptr<LinkListener> listener_;
    Acceptor& acceptor_;
    const std::string peer_;
    std::atomic<bool> admitted_{false};
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override try {
    if (context->method() != kWorkerMethod) {
      ++refused_;
      return new Refused("no such method", grpc::StatusCode::UNIMPLEMENTED);
    }
    if (!shows_token(*context, token_)) {
      ++refused_;
      return new Refused("not this job's token");
    }
    return let_in(*context);
  } catch (const std::exception&) {
    // Null: gRPC refuses the call itself.
    return new (std::nothrow) Refused("no memory", grpc::StatusCode::RESOURCE_EXHAUSTED);
  }

  grpc::ServerGenericBidiReactor* let_in(grpc::GenericCallbackServerContext& context)
      EXCLUDES(mutex_) {
    std::list<StreamLink> ended, mine;
    StreamLink& link = mine.emplace_back("the run at " + context.peer());
    auto stream = std::make_unique<Accepted>(link, 0, context);
    const auto listener = std::make_shared<Call>(*acceptor_, context.peer());
    link.on_admit([call = std::weak_ptr<Call>(listener)] {
      if (const std::shared_ptr<Call> known = call.lock()) known->admit();
    });
    std::shared_ptr<LinkListener> accepted = accept_(link);
    if (accepted == nullptr)
      return new Refused("it accepts no runs", grpc::StatusCode::UNAVAILABLE);
    listener->set(std::move(accepted));
    Accepted* const reactor = stream.get();
    Status why(ErrorCode::unavailable, "the port was closed");
    try {
      context.AddInitialMetadata(kWorkerName, "1");
      const MutexLock lock(mutex_);
      for (auto at = links_.begin(); at != links_.end();) {
        const auto next = std::next(at);
        if (at->ended()) ended.splice(ended.end(), links_, at);
        at = next;
      }
      if (!closed_) {
        link.begin(std::move(stream), listener, milliseconds(0));
        links_.splice(links_.end(), mine);
        return reactor;
      }
    } catch (...) {
      why = status_from_current_exception();
    }
    listener->lost(why);
    return new Refused("it can't", grpc::StatusCode::UNAVAILABLE);
  }

  const std::string token_;
  const AcceptLink accept_;
  std::string address_;
  std::atomic<std::size_t> refused_{0};
  std::unique_ptr<Acceptor> acceptor_;
  SlowMutex mutex_;  // held while a link begins, which starts a thread; the port ends no earlier
  std::list<StreamLink> links_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<WorkerLink> connect_to_worker(const std::string& address,
                                              const WorkerSecurity& security, milliseconds timeout,
                                              LinkListener& listener) {
  quiet_grpc();
  keep_grpc();
  keep_freed_memory();
  check_address(address);
  check_exposure(address, options_of(security));
  return std::make_unique<DialedLink>(address, security, std::max(timeout, milliseconds(1)),
                                      listener);
}

std::unique_ptr<WorkerPort> listen_for_runs(const std::string& address,
                                            const WorkerSecurity& security, AcceptLink accept) {
  quiet_grpc();
  keep_grpc();
  keep_freed_memory();
  check_address(address);
  check_exposure(address, options_of(security));
  return std::make_unique<ListeningPort>(address, security, std::move(accept));
}

}  // namespace penstock::cluster
