// Accepts the connections of a gRPC server, so that strangers can't take all descriptors.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include <grpcpp/server_builder.h>

#include <penstock/internal/posix.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// The listening sockets of a server. gRPC stops listening for good when a process has no more
/// descriptors. These sockets do not: the connection of a stranger, of which nothing was accepted
/// so far, ends after a while, and earlier if there are too many of them. Thread-safe.
class Acceptor {
 public:
  /// The strangers that a server of that many peers has at a time. An eighth of the descriptors
  /// that the process may have is the most, too.
  static constexpr std::size_t most_strangers(std::size_t peers) { return peers + 64; }
  /// How long a connection may be a stranger's, and how many bytes it may send meanwhile. That also
  /// ends headers without end, for which gRPC has no limit.
  static constexpr std::chrono::seconds kMostSilence{20};
  static constexpr std::uint64_t kMostBytesOfStranger = 4 << 20;

  /// The processes whose connections are accepted.
  enum class From {
    anyone,
    this_user,  ///< and root, as far as the kernel tells: of this machine
  };

  /// `cut_after`: a peer that takes no data for so long is cut off; 0: the kernel's usual time.
  /// gRPC sets this for its own sockets only. Listens at "host:port" for a server that `builder`
  /// then builds. With port 0 the system chooses one. Throws Error{unavailable} if it can't listen
  /// there, Error{invalid_argument} for no such address, and Error{resource_exhausted}.
  Acceptor(grpc::ServerBuilder& builder, const std::string& address, const TlsFiles& tls,
           std::size_t most_strangers, From from = From::anyone,
           std::chrono::milliseconds cut_after = {});
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor() { stop(); }

  /// Returns whom a job may hear that has these options: without a token, another user could come
  /// as a rank.
  static From from_of(const RendezvousOptions& options) noexcept {
    return options.token.empty() && !options.tls.given() ? From::this_user : From::anyone;
  }
  /// Begins to accept. Call it once the server was built.
  void start();
  /// Stops accepting. Connections stay until the server is destroyed.
  void stop() noexcept;
  /// Returns the port.
  int port() const noexcept { return port_; }
  /// A call on the connection of `peer`, as gRPC names it, was accepted. It is no stranger until
  /// the call has ended. Until then each message that comes by it has to be reported: a connection
  /// by which much else comes is ended.
  void accepted(const std::string& peer) noexcept EXCLUDES(mutex_);
  void received(const std::string& peer, std::uint64_t bytes) noexcept EXCLUDES(mutex_);
  void ended(const std::string& peer) noexcept EXCLUDES(mutex_);
  /// The connection of `peer` is no stranger any more.
  void keep(const std::string& peer) noexcept EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  /// A connection. Its second descriptor lets it be shut down without a race against gRPC, which
  /// may close its own at any time, so that the number is used again.
  struct Connection {
    UniqueFd fd;
    int port = 0;             // of the peer
    Clock::time_point since;  // a stranger's
    int calls = 0;
    std::uint64_t bytes = 0;  // received before
    // Of messages since then, and of what else may come; nothing: they are not counted.
    std::optional<std::uint64_t> of_messages{};
  };
  static std::uint64_t most_bytes(const Connection& connection, std::uint64_t sent,
                                  Clock::time_point now) noexcept;

  void listen(const std::string& host, const std::string& port);
  void accept(const std::stop_token& stop) noexcept;
  void watch(const std::stop_token& stop) noexcept;
  bool take(int listener) noexcept EXCLUDES(mutex_);
  /// Returns the milliseconds until the next look.
  int look() noexcept EXCLUDES(mutex_);
  bool drop_oldest(std::size_t unless_at_most = 0) noexcept EXCLUDES(mutex_);

  const std::size_t most_strangers_;
  const From from_;
  const int cut_after_ms_;
  std::vector<UniqueFd> listeners_;
  std::vector<pollfd> polled_;  // what wakes the thread that accepts, and the listeners
  int port_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_;
  UniqueFd wake_, stranger_came_;
  Mutex mutex_;
  std::list<Connection> connections_ GUARDED_BY(mutex_);  // in the order of their coming
  std::size_t strangers_ GUARDED_BY(mutex_) = 0;          // those among them
  Thread accepting_;
  Thread watching_;
};

}  // namespace penstock::cluster
