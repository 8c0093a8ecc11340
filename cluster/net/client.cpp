// A rank's side of the rendezvous.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "cluster/net/credentials.h"
#include "cluster/net/ending.h"
#include "cluster/net/open.h"
#include "cluster/net/poll_value.h"
#include "cluster/net/server.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class GrpcRendezvous final : public Rendezvous {
 public:
  GrpcRendezvous(const Cluster& cluster, const RendezvousOptions& options)
      : options_(options),
        rank_(cluster.rank),
        world_(cluster.world),
        address_(cluster.rendezvous.substr(kGrpcScheme.size())),
        incarnation_(new_incarnation()) {
    check_exposure(address_, options_);
    if (rank_ == 0) {
      server_ = std::make_unique<RendezvousServer>(address_, world_, options_);
    } else {
      stub_ = wire::Rendezvous::NewStub(grpc::CreateCustomChannel(
          address_, channel_credentials(options_.tls), patient_channel()));
    }
  }

  ~GrpcRendezvous() override {
    thread_.request_stop();
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (!came_) return;
    try {
      wire::BeatRequest last = beat_request();
      last.set_leaving(true);
      ask(last);
    } catch (...) {  // other ranks find out by the signs of life
    }
    linger();
  }

  void join(const Facts& facts) override {
    wire::JoinRequest request;
    request.set_rank(rank_);
    request.set_world(world_);
    request.set_incarnation(incarnation_);
    for (const auto& [name, value] : facts) (*request.mutable_facts())[name] = value;
    const Clock::time_point until = Clock::now() + options_.join_timeout;
    std::string missing;
    for (;;) {
      wire::JoinReply reply;
      const grpc::Status sent = ask(request, reply);
      if (sent.ok()) {
        if (reply.refused().ended()) throw Error(status_of(reply.refused()).error());
        came_ = true;
        if (reply.verdict().ended()) throw Error(status_of(reply.verdict()).error());
        if (reply.complete()) break;
        missing = reply.missing();
      } else if (sent.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
        throw Error(ErrorCode::invalid_argument,
                    "rank 0 at " + address_ + " refused this process: " + sent.error_message());
      } else if (sent.error_code() != grpc::StatusCode::UNAVAILABLE &&
                 sent.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
        throw Error(ErrorCode::unavailable,
                    address_ + " does not answer like rank 0: " + sent.error_message());
      }
      if (Clock::now() >= until) {
        if (!sent.ok())
          throw Error(ErrorCode::unavailable,
                      "rank 0 was not reached at " + address_ + ": " + sent.error_message() +
                          (missing.empty() ? "" : "; before that, " + missing + " had not joined"));
        throw Error(ErrorCode::no_progress, missing + " did not join the rendezvous within " +
                                                std::to_string(options_.join_timeout.count()) +
                                                " ms");
      }
      std::this_thread::sleep_for(pause());
    }
    heard_ = Clock::now();
    thread_ = start_thread("signs of life", [this](const std::stop_token& stop) { live(stop); });
  }

  void put(const std::string& key, const std::string& value) override {
    wire::PutRequest request;
    request.set_key(key);
    request.set_value(value);
    wire::PutReply reply;
    // Rank 0 may answer slowly. The signs of life show whether it is lost.
    for (bool sent = false; !sent;) {
      if (server_ != nullptr) {
        reply = server_->put(request);
        break;
      }
      grpc::ClientContext context;
      prepare(context);
      sent = answered(stub_->Put(&context, request, &reply));
      if (!sent) std::this_thread::sleep_for(pause());
    }
    if (reply.refused().ended()) throw Error(status_of(reply.refused()).error());
  }

  std::string get(const std::string& key, milliseconds timeout) override {
    wire::GetRequest request;
    request.set_key(key);
    return poll_value(key, timeout, pause(), [&]() -> std::optional<std::string> {
      wire::GetReply reply;
      if (server_ != nullptr) {
        reply = server_->get(request);
      } else {
        grpc::ClientContext context;
        prepare(context);
        if (!answered(stub_->Get(&context, request, &reply))) reply.Clear();
      }
      if (reply.found()) return reply.value();
      if (reply.verdict().ended()) throw Error(status_of(reply.verdict()).error());
      return std::nullopt;
    });
  }

  Status status() const override { return ending_.status(); }

  void watch(const void* watcher, std::function<void(const Status&)> told) override {
    ending_.watch(watcher, std::move(told));
  }

  void unwatch(const void* watcher) noexcept override { ending_.unwatch(watcher); }

  void fail(const Status& error) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    if (own_error_.ok()) own_error_ = error;
    urgent_ = true;
    wake_.notify_all();
  }

  void say(std::string what) EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    said_ = std::move(what);
  }

  std::vector<std::string> said() const override {
    return server_ == nullptr ? std::vector<std::string>() : server_->said();
  }

  ClockOffset clock() const EXCLUDES(mutex_) override {
    if (server_ != nullptr) return {0, 0};
    const MutexLock lock(mutex_);
    return clock_.at(steady_ns());
  }

  std::size_t refused() const noexcept override {
    return server_ == nullptr ? 0 : server_->refused();
  }

 private:
  static std::int64_t steady_ns() {
    return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  }

  milliseconds pause() const { return milliseconds(20 + world_ / 2); }

  void prepare(grpc::ClientContext& context) const {
    const milliseconds limit =
        std::max(milliseconds(100), std::min(milliseconds(5000), options_.peer_timeout / 2));
    context.set_deadline(std::chrono::system_clock::now() + limit);
    if (!options_.token.empty()) context.AddMetadata(kTokenName, options_.token);
  }

  /// False: ask again. Throws the error that ended the job, or rank 0's reason for a refusal.
  bool answered(const grpc::Status& sent) const {
    if (sent.ok()) return true;
    const Status ended = status();
    if (!ended.ok()) throw Error(ended.error());
    if (sent.error_code() == grpc::StatusCode::UNAVAILABLE ||
        sent.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
      return false;
    throw Error(ErrorCode::unavailable,
                "rank 0 at " + address_ + " does not answer: " + sent.error_message());
  }

  grpc::Status ask(const wire::JoinRequest& request, wire::JoinReply& reply) {
    if (server_ != nullptr) {
      reply = server_->join(request);
      return grpc::Status::OK;
    }
    grpc::ClientContext context;
    prepare(context);
    return stub_->Join(&context, request, &reply);
  }

  /// Returns nothing if rank 0 did not answer.
  std::optional<wire::BeatReply> ask(const wire::BeatRequest& request) EXCLUDES(mutex_) {
    if (server_ != nullptr) return server_->beat(request);
    grpc::ClientContext context;
    prepare(context);
    wire::BeatReply reply;
    const std::int64_t asked_ns = steady_ns();
    if (!stub_->Beat(&context, request, &reply).ok()) return std::nullopt;
    const std::int64_t heard_ns = steady_ns();
    const MutexLock lock(mutex_);
    clock_.add(asked_ns, heard_ns, reply.steady_ns());
    return reply;
  }

  wire::BeatRequest beat_request() const EXCLUDES(mutex_) {
    wire::BeatRequest request;
    request.set_rank(rank_);
    request.set_incarnation(incarnation_);
    const MutexLock lock(mutex_);
    request.set_said(said_);
    if (!own_error_.ok()) *request.mutable_failed() = verdict_of(own_error_);
    return request;
  }

  /// Gives signs of life until the end.
  void live(const std::stop_token& stop) noexcept EXCLUDES(mutex_) {
    const milliseconds interval = std::max(milliseconds(5), options_.peer_timeout / 5);
    // A few questions in quick succession at the beginning measure rank 0's clock.
    constexpr int kSoon = 8;
    for (int signs = 0; !stop.stop_requested(); ++signs) {
      try {
        if (const std::optional<wire::BeatReply> reply = ask(beat_request())) {
          heard_ = Clock::now();
          if (reply->verdict().ended()) ending_.end(status_of(reply->verdict()));
        }
      } catch (...) {  // out of memory: treated as a missing answer
      }
      if (Clock::now() - heard_ > options_.peer_timeout) ending_.end(lost());
      const Clock::time_point due = Clock::now() + (signs < kSoon ? milliseconds(5) : interval);
      const MutexLock lock(mutex_);
      while (!urgent_ && !stop.stop_requested() && Clock::now() < due)
        wake_.wait_until(mutex_, stop, due);
      urgent_ = false;
    }
  }

  Status lost() const noexcept {
    try {
      return {ErrorCode::unavailable, "rank 0 at " + address_ + " was lost: no answer for " +
                                          std::to_string(options_.peer_timeout.count()) + " ms"};
    } catch (...) {
      return status_from_current_exception();
    }
  }

  /// Rank 0 stays until the others have left too, or had time to learn what ended the job.
  void linger() const {
    if (server_ == nullptr) return;
    const Clock::time_point until = Clock::now() + options_.peer_timeout;
    while (!server_->all_left() && Clock::now() < until)
      std::this_thread::sleep_for(milliseconds(5));
  }

  const GrpcLife grpc_;
  const RendezvousOptions options_;
  const int rank_;
  const int world_;
  const std::string address_;
  const std::string incarnation_;
  bool came_ = false;                             // rank 0 knows of this rank
  std::unique_ptr<RendezvousServer> server_;      // on rank 0
  std::unique_ptr<wire::Rendezvous::Stub> stub_;  // on all other ranks
  Clock::time_point heard_;                       // used by the thread
  mutable Mutex mutex_;
  StoppableCondVar wake_;
  Status own_error_ GUARDED_BY(mutex_);
  bool urgent_ GUARDED_BY(mutex_) = false;
  std::string said_ GUARDED_BY(mutex_);
  ClockEstimate clock_ GUARDED_BY(mutex_);
  Ending ending_;
  Thread thread_;
};

}  // namespace

std::unique_ptr<Rendezvous> open_grpc(const Cluster& cluster, const RendezvousOptions& options) {
  quiet_grpc();
  return std::make_unique<GrpcRendezvous>(cluster, options);
}

}  // namespace penstock::cluster
