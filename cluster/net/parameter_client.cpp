// A client of a parameter server over gRPC, for a process that trains.
#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <grpcpp/create_channel.h>

#include <penstock/internal/thread_annotations.h>

#include "cluster/net/credentials.h"
#include "cluster/net/open.h"
#include "cluster/net/parameter_call.h"
#include "cluster/net/parameter_channel.h"
#include "cluster/net/parameter_reply.h"
#include "cluster/net/parameter_wire.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Takes the rows of one variable.
class RowsTaker final : public towers::Takers {
 public:
  RowsTaker(std::uint32_t variable, float* values, std::size_t count)
      : variable_(variable), values_(values), count_(count) {}
  float* place(std::uint32_t variable, std::size_t count) override {
    if (variable != variable_ || count != count_)
      throw Error(ErrorCode::mismatch, "a parameter server answers with " + std::to_string(count) +
                                           " values of variable " + std::to_string(variable));
    return values_;
  }

 private:
  const std::uint32_t variable_;
  float* const values_;
  const std::size_t count_;
};

class ParameterClient final : public towers::ParameterServer {
 public:
  ParameterClient(const std::string& name, const std::string& address,
                  const RendezvousOptions& options)
      : who_(name + " at " + address), options_(options) {
    check_exposure(address, options_);
    grpc::ChannelArguments arguments = patient_channel();
    for (const auto& [argument, value] : bulk_arguments(options_.peer_timeout))
      arguments.SetInt(argument, value);
    arguments.SetMaxReceiveMessageSize(kMostBytesOfPart);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, channel_credentials(options_.tls), arguments));
  }

  Status loss() const EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    return loss_;
  }

  void begin(const towers::Beginning& beginning, const towers::Trainee& chief) override {
    wire::Ask ask = of_run(wire::Ask::BEGIN, beginning.run);
    *ask.mutable_who() = wire_of(chief);
    *ask.mutable_beginning() = wire_of(beginning);
    call(ask);
  }
  void give(const std::string& run, int slot, const towers::Piece& values) override {
    wire::Ask ask = of_run(wire::Ask::GIVE, run);
    ask.set_slot(slot);
    call(ask, {values});
  }
  void ready(const std::string& run) override { call(of_run(wire::Ask::READY, run)); }
  towers::SnapshotHead keep(const std::string& run) override {
    return head_of(call(of_run(wire::Ask::KEEP, run)));
  }
  void snapshot(const std::string& run, int slot, towers::Takers& taker) override {
    wire::Ask ask = of_run(wire::Ask::SNAPSHOT, run);
    ask.set_slot(slot);
    call(ask, {}, &taker);
  }
  towers::ServerFigures figures(const std::string& run) override {
    return figures_of(call(of_run(wire::Ask::FIGURES, run)));
  }
  void end(const std::string& run, const Status& why) override {
    wire::Ask ask = of_run(wire::Ask::END, run);
    if (!why.ok()) *ask.mutable_status() = verdict_of(why);
    call(ask);
  }

  towers::Entered enter(const towers::Trainee& who, const std::map<std::string, std::string>& facts,
                        milliseconds limit) override {
    wire::Ask ask = of_one(wire::Ask::ENTER, who);
    write(facts, *ask.mutable_facts());
    const Clock::time_point until = Clock::now() + limit;
    for (;;) {
      const milliseconds left = left_until(until);
      ask.set_limit_ms(static_cast<std::uint64_t>(std::min(left, slice()).count()));
      try {
        return entered_of(call(ask, {}, nullptr, left));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::no_progress) throw;
        if (Clock::now() >= until)
          throw Error(ErrorCode::no_progress,
                      "no run began at " + who_ + " in " + std::to_string(limit.count()) + " ms");
      }
    }
  }
  Status beat(const towers::Trainee& who, const Status& failed) override {
    wire::Ask ask = of_one(wire::Ask::BEAT, who);
    if (!failed.ok()) *ask.mutable_status() = verdict_of(failed);
    return status_of(call(ask).status());
  }
  void keep_feed(const towers::Trainee& who, const towers::KeptFeed& feed) override {
    wire::Ask ask = of_one(wire::Ask::KEEP_FEED, who);
    *ask.mutable_feed() = wire_of(feed);
    call(ask);
  }
  towers::Pushed push(const towers::Trainee& who, const towers::Push& push,
                      towers::Takers& taker) override {
    wire::Ask ask = of_one(wire::Ask::PUSH, who);
    write(push, ask);
    return pushed_of(call(ask, push.pieces, &taker));
  }
  towers::Pushed commit(const towers::Trainee& who, int replica, std::uint64_t number,
                        std::uint64_t seen, std::int64_t rows) override {
    wire::Ask ask = of_one(wire::Ask::COMMIT, who);
    write({.replica = replica, .number = number, .seen = seen, .rows = rows}, ask);
    return pushed_of(call(ask));
  }
  bool take(const towers::Trainee& who, int replica, milliseconds limit, std::uint64_t& step,
            bool& finished) override {
    wire::Ask ask = of_one(wire::Ask::TAKE, who);
    ask.set_replica(replica);
    const Clock::time_point until = Clock::now() + limit;
    for (;;) {
      ask.set_limit_ms(static_cast<std::uint64_t>(std::min(left_until(until), slice()).count()));
      const wire::Answer answer = call(ask);
      step = answer.step();
      finished = answer.finished();
      if (answer.taken() || Clock::now() >= until) return answer.taken();
    }
  }
  std::uint64_t pull(const towers::Trainee& who, std::uint64_t have,
                     towers::Takers& taker) override {
    wire::Ask ask = of_one(wire::Ask::PULL, who);
    ask.set_have(have);
    return call(ask, {}, &taker).step();
  }
  void pull_rows(const towers::Trainee& who, std::uint32_t variable,
                 const std::vector<std::int64_t>& rows, float* values, std::size_t count) override {
    RowsTaker taker(variable, values, count);
    static constexpr std::int64_t kNone = 0;
    const towers::Piece asked{.variable = variable,
                              .rows = rows.empty() ? &kNone : rows.data(),
                              .row_count = rows.size()};
    const wire::Answer answer = call(of_one(wire::Ask::PULL_ROWS, who), {asked}, &taker);
    if (answer.items_size() != 1)
      throw Error(ErrorCode::mismatch, who_ + " answers without the rows that it was asked for");
  }
  void leave(const towers::Trainee& who, int replica) override {
    wire::Ask ask = of_one(wire::Ask::LEAVE, who);
    ask.set_replica(replica);
    call(ask);
  }

  std::vector<towers::SquareSum> norms(const std::string& run,
                                       const towers::Update& update) override {
    return norms_of(call(of_update(wire::Ask::NORMS, run, update)));
  }
  void apply(const std::string& run, const towers::Update& update) override {
    call(of_update(wire::Ask::APPLY, run, update));
  }
  towers::SnapshotHead keep_here(const std::string& run) override {
    return head_of(call(of_run(wire::Ask::KEEP_HERE, run)));
  }

 private:
  static wire::Ask of_run(wire::Ask::What what, const std::string& run) {
    wire::Ask ask;
    ask.set_what(what);
    ask.set_run(run);
    return ask;
  }
  static wire::Ask of_one(wire::Ask::What what, const towers::Trainee& who) {
    wire::Ask ask;
    ask.set_what(what);
    *ask.mutable_who() = wire_of(who);
    return ask;
  }
  static wire::Ask of_update(wire::Ask::What what, const std::string& run,
                             const towers::Update& update) {
    wire::Ask ask = of_run(what, run);
    *ask.mutable_update() = wire_of(update);
    return ask;
  }

  static milliseconds left_until(Clock::time_point until) {
    return std::max(milliseconds(0),
                    std::chrono::duration_cast<milliseconds>(until - Clock::now()));
  }
  /// Returns the time that one waiting question may take.
  milliseconds slice() const {
    return std::clamp(options_.peer_timeout / 4, milliseconds(20), milliseconds(1000));
  }
  milliseconds silent_since(Clock::time_point asked) const {
    const Clock::time_point heard{Clock::duration(heard_.load())};
    return std::chrono::duration_cast<milliseconds>(Clock::now() - std::max(asked, heard));
  }
  /// Remembers the error, and throws it.
  [[noreturn]] void lose(const Error& error) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (loss_.ok()) loss_ = error;
    throw Error(error);
  }

  /// Asks until there is an answer. `unreached` limits the wait for a server that was never
  /// reached.
  wire::Answer call(wire::Ask ask, const std::vector<towers::Piece>& pieces = {},
                    towers::Takers* taker = nullptr,
                    std::optional<milliseconds> unreached = std::nullopt) {
    for (const towers::Piece& piece : pieces) {
      wire::Item& item = *ask.add_items();
      item.set_variable(piece.variable);
      item.set_rows(piece.row_count);
      item.set_count(piece.count);
      item.set_sparse(piece.rows != nullptr);
    }
    const bool last_words = ask.what() == wire::Ask::END || ask.has_status();
    const bool among_servers = ask.has_update() || ask.what() == wire::Ask::KEEP_HERE;
    // A server that was never reached is not waited for at the end. Servers call each other only
    // after the chief has found them all.
    const milliseconds coming = unreached.value_or(
        last_words || among_servers ? options_.peer_timeout : options_.join_timeout);
    const Clock::time_point asked = Clock::now();
    Places places(taker);
    for (;;) {
      wire::Answer answer;
      const grpc::Status sent = ask_once(ask, pieces, places, asked, answer);
      if (sent.ok()) {
        if (answer.verdict().ended()) throw_verdict(status_of(answer.verdict()).error());
        return answer;
      }
      if (sent.error_code() == grpc::StatusCode::PERMISSION_DENIED)
        throw Error(ErrorCode::invalid_argument,
                    who_ + " refused this process: " + sent.error_message());
      if (!may_come_again(sent.error_code()))
        lose({ErrorCode::unavailable,
              who_ + " does not answer like a parameter server: " + sent.error_message()});
      if (reached_ && silent_since(asked) > options_.peer_timeout)
        lose({ErrorCode::unavailable, who_ + " was lost: no answer for " +
                                          std::to_string(options_.peer_timeout.count()) + " ms"});
      if (!reached_ && silent_since(asked) > coming)
        lose({ErrorCode::unavailable, who_ + " was not reached in " +
                                          std::to_string(coming.count()) +
                                          " ms: " + sent.error_message()});
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  /// Throws an error that the server reported: a process was lost, or the request was invalid.
  [[noreturn]] void throw_verdict(const Error& error) {
    if (error.code() == ErrorCode::unavailable || error.code() == ErrorCode::cancelled) lose(error);
    throw Error(error);
  }

  static bool may_come_again(grpc::StatusCode code) {
    return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED ||
           code == grpc::StatusCode::DEADLINE_EXCEEDED;
  }

  grpc::Status ask_once(const wire::Ask& ask, const std::vector<towers::Piece>& pieces,
                        Places& places, Clock::time_point asked, wire::Answer& answer) {
    const ParameterCall::MayContinue may_continue = [&](bool moved) {
      if (moved) heard_ = Clock::now().time_since_epoch().count();
      return moved || silent_since(asked) <= options_.peer_timeout;
    };
    ParameterCall stream(*stub_, options_.token, kMostOfCall, may_continue);
    {
      Outgoing outgoing(ask, stream.loan());
      for (const towers::Piece& piece : pieces) {
        outgoing.add(piece.rows, piece.row_count * sizeof(std::int64_t));
        outgoing.add(piece.values, piece.count * sizeof(float));
      }
      while (outgoing.more()) {
        const grpc::ByteBuffer message = outgoing.next();
        if (!stream.write(message, !outgoing.more())) break;
      }
    }
    const Reading reading = read_answer(stream, answer, places);
    if (reading == Reading::odd) return {grpc::StatusCode::DATA_LOSS, "invalid answer"};
    const grpc::Status status = stream.finish();
    if (reading == Reading::whole) {
      reached_ = true;
      return grpc::Status::OK;
    }
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "it stopped half way")
                       : status;
  }

  /// A call that is neither done nor broken after this time is a defect.
  static constexpr milliseconds kMostOfCall{3'600'000};

  const std::string who_;
  const RendezvousOptions options_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::atomic<Clock::rep> heard_{0};
  std::atomic<bool> reached_{false};
  mutable Mutex mutex_;
  Status loss_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<towers::ParameterServer> open_by_grpc(const std::string& name,
                                                      const std::string& address,
                                                      const RendezvousOptions& options) {
  quiet_grpc();
  keep_grpc();
  keep_freed_memory();
  return std::make_unique<ParameterClient>(name, address, options);
}

}  // namespace penstock::cluster
