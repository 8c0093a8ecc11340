// Connections by gRPC: one stream between any two ranks, opened by the rank with the higher number.
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>

#include <penstock/internal/thread_annotations.h>

#include "cluster/net/acceptor.h"
#include "cluster/net/credentials.h"
#include "cluster/net/links.h"
#include "cluster/net/own_host.h"
#include "cluster/net/streams.h"

namespace penstock::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kMethod = "/penstock.Exchange/Stream";
constexpr const char* kRank = "penstock-rank";
constexpr const char* kGroup = "penstock-group";

class GrpcLinks final : public Links, private grpc::CallbackGenericService, private StreamOwner {
 public:
  GrpcLinks(Rendezvous& rendezvous, const Cluster& cluster, const ProcessGroupOptions& options)
      : Links(rendezvous, cluster, options),
        options_(options),
        peers_(static_cast<std::size_t>(cluster.world)) {
    if (size() == 1) return;
    try {
      listen(own_host(cluster));
      for (int other = 0; other < rank(); ++other) dial(other);
      wait_for_all();
      begin();
    } catch (const Error& error) {
      close();
      throw Error(error.code(), "the exchange between ranks: " + error.cause(), error.where());
    } catch (const std::exception& error) {
      close();
      throw_why(error.what());
    }
  }
  ~GrpcLinks() override {
    part();
    close();
  }

  std::unique_ptr<LinkBuffer> buffer(void* data, std::size_t bytes) override {
    if (const Status why = ended(); !why.ok()) throw Error(why.error());
    return std::make_unique<Buffer>(*this, static_cast<char*>(data), bytes);
  }

 private:
  class Buffer;
  /// The destination of a message.
  struct Place {
    Buffer* buffer;
    char* to;
    std::size_t bytes;
  };
  /// Another rank.
  struct Peer {
    Stream* stream = nullptr;
    bool connected = false;
    std::deque<Bytes> to_send;  // the first is being written
    bool writing = false;
    Bytes arriving;  // used by the stream's one read
    std::map<std::uint64_t, Place> places;
    std::map<std::uint64_t, Bytes> early;  // arrived before they were requested
  };

  class Buffer final : public LinkBuffer {
   public:
    Buffer(GrpcLinks& links, char* data, std::size_t /*bytes*/) : links_(links), data_(data) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() override {
      const MutexLock lock(links_.mutex_);
      for (Peer& peer : links_.peers_)
        std::erase_if(peer.places, [&](const auto& at) { return at.second.buffer == this; });
    }

    /// Copies the bytes, so that they may be overwritten at once.
    void send(int rank, std::uint64_t slot, std::size_t begin, std::size_t end) override {
      if (end == begin) return;
      const grpc::Slice parts[] = {grpc::Slice(&slot, sizeof slot),
                                   grpc::Slice(data_ + begin, end - begin)};
      links_.send(rank, Bytes(parts, 2));
    }
    void receive(int rank, std::uint64_t slot, std::size_t begin, std::size_t end) override {
      if (end == begin) return;
      ++wanted_;
      links_.receive(rank, slot, {this, data_ + begin, end - begin});
    }
    void received_one() override {
      --wanted_;
      const Clock::time_point until = Clock::now() + links_.options_.timeout;
      const MutexLock lock(links_.mutex_);
      while (arrived_ == 0 && !links_.broken_ && Clock::now() < until)
        links_.changed_.wait_until(links_.mutex_, until);
      if (arrived_ == 0)
        throw Error(ErrorCode::cancelled, links_.why_.empty() ? "nothing came" : links_.why_);
      --arrived_;
    }
    void received() override {
      while (wanted_ > 0) received_one();
    }
    void sent() override {}

    /// Counts a message that was put into its place, with the links' mutex held.
    void count_arrival() {
      links_.mutex_.assert_held();
      ++arrived_;
    }

   private:
    GrpcLinks& links_;
    char* const data_;
    int wanted_ = 0;
    int arrived_ GUARDED_BY(links_.mutex_) = 0;
  };

  void listen(const std::string& host) {
    RendezvousOptions exposed;
    exposed.tls = options_.tls;
    exposed.token = options_.token;
    check_exposure(host + ":0", exposed);
    grpc::ServerBuilder builder;
    acceptor_ = std::make_unique<Acceptor>(
        builder, host + ":0", options_.tls,
        Acceptor::most_strangers(static_cast<std::size_t>(size())), Acceptor::from_of(exposed));
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(-1);  // from ranks; strangers get no stream
    server_ = builder.BuildAndStart();
    if (server_ == nullptr)
      throw Error(ErrorCode::unavailable, "can't listen at " + host + " for the exchange");
    acceptor_->start();
    rendezvous().put(name() + "address " + std::to_string(rank()),
                     host + ":" + std::to_string(acceptor_->port()));
  }

  void dial(int other) EXCLUDES(mutex_) {
    const std::string address =
        rendezvous().get(name() + "address " + std::to_string(other), connected_within());
    grpc::ChannelArguments arguments = patient_channel();
    arguments.SetMaxReceiveMessageSize(-1);
    // Each stream has its own connection, so that two groups do not share one.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stubs_.push_back(std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, channel_credentials(options_.tls), arguments)));
    auto* stream = new Dialed(*this, other);
    stream->context.set_wait_for_ready(true);
    stream->context.AddMetadata(kRank, std::to_string(rank()));
    stream->context.AddMetadata(kGroup, options_.name);
    if (!options_.token.empty()) stream->context.AddMetadata(kTokenName, options_.token);
    stubs_.back()->PrepareBidiStreamingCall(&stream->context, kMethod, {}, stream);
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(other)];
    peer.stream = stream;
    ++streams_;
    stream->read(&peer.arriving);
    stream->open();
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override try {
    const auto said = [&](const char* name) {
      const auto found = context->client_metadata().find(name);
      return found == context->client_metadata().end()
                 ? std::string()
                 : std::string(found->second.data(), found->second.size());
    };
    if (!shows_token(*context, options_.token)) return new Refused("not this job's token");
    const std::string number = said(kRank);
    const bool is_number = !number.empty() && number.size() < 7 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    const int other = is_number ? std::stoi(number) : -1;
    if (context->method() != kMethod || said(kGroup) != options_.name || other <= rank() ||
        other >= size())
      return new Refused("no rank of this group");
    StreamOwner& owner = *this;
    auto stream = std::make_unique<Accepted>(owner, other, *context);
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(other)];
    if (peer.stream != nullptr || broken_) return new Refused("this rank has come");
    peer.stream = stream.get();
    peer.connected = true;
    ++streams_;
    acceptor_->keep(context->peer());
    stream->open();  // tells the other side that it was admitted
    stream->read(&peer.arriving);
    changed_.notify_all();
    return stream.release();
  } catch (const std::bad_alloc&) {
    return nullptr;  // gRPC refuses the call
  }

  /// A listening rank admits others at once, and waiting for a rank that is gone or cut off is
  /// useless.
  std::chrono::milliseconds connected_within() const {
    return std::min(options_.timeout, std::chrono::milliseconds(30'000));
  }

  /// Returns the first rank that is not connected; -1 if all are.
  int missing() const REQUIRES(mutex_) {
    for (int other = 0; other < size(); ++other)
      if (other != rank() && !peers_[static_cast<std::size_t>(other)].connected) return other;
    return -1;
  }

  void wait_for_all() EXCLUDES(mutex_) {
    constexpr std::chrono::milliseconds kLook{50};
    const auto until = Clock::now() + connected_within();
    auto look = Clock::now() + kLook;
    MutexLock lock(mutex_);
    while (missing() >= 0 && !broken_) {
      if (Clock::now() < look) {
        changed_.wait_until(mutex_, look);
        continue;
      }
      const int other = missing();
      lock.unlock();
      // The job may end although no stream is lost.
      if (const Status of_job = rendezvous().status(); !of_job.ok()) throw Error(of_job.error());
      if (Clock::now() > until)
        throw Error(ErrorCode::no_progress,
                    "rank " + std::to_string(other) + " and this one did not connect in time");
      look = Clock::now() + kLook;
      lock.lock();
    }
    if (broken_) throw std::runtime_error(why_);
  }

  void send(int rank, Bytes message) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (broken_) throw Error(ErrorCode::cancelled, why_);
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.to_send.push_back(std::move(message));
    if (!std::exchange(peer.writing, true)) peer.stream->write(&peer.to_send.front());
  }

  void receive(int rank, std::uint64_t slot, const Place& place) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (const auto early = peer.early.extract(slot)) {
      put(rank, early.mapped(), place);
    } else {
      peer.places.emplace(slot, place);
    }
  }

  /// Copies the bytes after the slot's number to their place.
  void put(int rank, Bytes& message, const Place& place) REQUIRES(mutex_) {
    if (!copy_behind_slot(message, place.to, place.bytes))
      return break_up("rank " + std::to_string(rank) + " sent " + std::to_string(message.Length()) +
                      " bytes for " + std::to_string(place.bytes));
    place.buffer->count_arrival();
    changed_.notify_all();
  }

  // Called by gRPC's threads.
  void arrived(int rank) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    try {
      const std::optional<std::uint64_t> slot = slot_of(peer.arriving);
      if (!slot) {
        break_up("rank " + std::to_string(rank) + " sent a message without a number");
      } else if (const auto place = peer.places.extract(*slot)) {
        put(rank, peer.arriving, place.mapped());
      } else {
        peer.early.emplace(*slot, peer.arriving);
      }
      peer.arriving.Clear();
    } catch (const std::exception&) {
      break_up("no memory for what another rank sent");
    }
    if (!broken_) peer.stream->read(&peer.arriving);
  }
  void written(int rank) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.to_send.pop_front();
    peer.writing = !peer.to_send.empty() && !broken_;
    if (peer.writing) peer.stream->write(&peer.to_send.front());
  }
  void connected(int rank) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    peers_[static_cast<std::size_t>(rank)].connected = true;
    changed_.notify_all();
  }
  void lost(int rank) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.connected || broken_) return break_up("a connection between ranks was lost");
    peer.stream->give_up();
  }
  void over(int rank, Stream* stream, const grpc::Status& why) noexcept EXCLUDES(mutex_) override {
    delete stream;
    const MutexLock lock(mutex_);
    try {
      if (!broken_)
        break_up("rank " + std::to_string(rank) + " rejected this rank: " + why.error_message());
    } catch (...) {
      break_up("a rank rejected this rank");
    }
    peers_[static_cast<std::size_t>(rank)].stream = nullptr;
    --streams_;
    changed_.notify_all();
  }

  /// The first reason counts.
  void break_up(std::string_view why) noexcept REQUIRES(mutex_) {
    if (!broken_) {
      try {
        why_ = why;
      } catch (...) {  // without a reason then
      }
    }
    broken_ = true;
    changed_.notify_all();
  }

  void interrupt() noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    break_up("the exchange was ended");
  }

  /// Returns when no stream is left; cancelled streams end at once.
  void close() noexcept EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      break_up("the exchange was closed");
      for (Peer& peer : peers_)
        if (peer.stream != nullptr) peer.stream->finish();
    }
    if (acceptor_ != nullptr) acceptor_->stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    const MutexLock lock(mutex_);
    while (streams_ != 0) changed_.wait(mutex_);
  }

  const ProcessGroupOptions options_;
  Mutex mutex_;
  CondVar changed_;
  // gRPC uses `arriving` and the first of `to_send` without the mutex.
  std::vector<Peer> peers_ GUARDED_BY(mutex_);
  int streams_ GUARDED_BY(mutex_) = 0;
  bool broken_ GUARDED_BY(mutex_) = false;
  std::string why_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<Links> open_grpc_links(Rendezvous& rendezvous, const Cluster& cluster,
                                       const ProcessGroupOptions& options) {
  return std::make_unique<GrpcLinks>(rendezvous, cluster, options);
}

}  // namespace penstock::cluster
