// A run's connection to one input worker.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <penstock/internal/thread_annotations.h>
#include <penstock/internal/worker_links.h>

#include "pipeline/remote/messages.h"

namespace penstock::remote {

using Clock = std::chrono::steady_clock;

class Connection;

/// The user of connections. The transport's threads call it, without a lock.
class ConnectionOwner {
 public:
  virtual void ready(Connection& connection, const Welcome& welcome) noexcept = 0;
  virtual void answered(Connection& connection, AnswerHead head, Incoming& message) noexcept = 0;
  /// The worker takes no more groups, but answers those that it has.
  virtual void leaving(Connection& connection) noexcept = 0;
  /// The connection is lost: the worker's groups will not be answered. `for_good`: reconnecting is
  /// pointless.
  virtual void gone(Connection& connection, const Status& why, bool for_good) noexcept = 0;

 protected:
  ~ConnectionOwner() = default;
};

/// A connection that decodes the messages of one worker. The owner's mutex guards all public
/// members.
class Connection final : public LinkListener {
 public:
  Connection(ConnectionOwner& owner, std::string address)
      : owner_(owner), address_(std::move(address)) {
    stats.address = address_;
  }

  const std::string& address() const noexcept { return address_; }

  enum class State : std::uint8_t {
    down,        ///< connect again at `next_try`
    connecting,  ///< until the worker has the graph
    up,
    leaving,  ///< up, but gets no more groups
    out,      ///< left out for good
  };
  State state = State::down;
  std::unique_ptr<WorkerLink> link;
  std::atomic<bool> on_this_machine{false};  ///< the link is local, and its bytes are not checked
  bool tries_locally = true;                 ///< before the network
  std::unique_ptr<WorkerLink> old_link;      ///< closed; the owner's thread destroys it
  Clock::time_point next_try{};
  std::uint64_t programs = 0;  ///< number of programs that the worker knows
  struct Sent {
    Clock::time_point at;
    std::size_t bytes = 0;  ///< of the request and its answer
  };
  /// Groups that were requested and are not answered yet, by number.
  std::map<std::uint64_t, Sent> asked;
  std::size_t bytes = 0;  ///< of all groups in `asked`
  std::size_t most_groups = 0;
  std::size_t most_bytes = 0;
  WorkerStats stats{};
  double round_trips_s = 0;  ///< sum over all answered groups
  /// Sum over all requests, with room for their answers.
  std::uint64_t asked_bytes = 0;
  std::uint64_t asks = 0;

  // LinkListener
  void received(WireBytes message) noexcept override;
  void lost(const Status& why) noexcept override;

 private:
  ConnectionOwner& owner_;
  const std::string address_;
};

}  // namespace penstock::remote
