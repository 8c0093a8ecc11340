// Connections between runs and input workers: the contract of a transport, which is in a module.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/workers.h>

namespace penstock {

class SharedMemory;

/// A message, in pieces that are not copied. They are valid as long as `owner` is held.
struct WireBytes {
  std::vector<std::span<const std::byte>> pieces{};
  std::shared_ptr<const void> owner{};

  /// Returns the bytes of all pieces.
  std::size_t size() const noexcept {
    std::size_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    return bytes;
  }
};

/// A receiver of a link's events. Threads of the transport call it, one call at a time for each
/// link.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  /// Reports that the other side has accepted this one. Not called on the side that was connected
  /// to.
  virtual void connected() noexcept {}
  /// Receives a message.
  virtual void received(WireBytes message) noexcept = 0;
  /// Reports that the link has ended, and why; it is the last call. The code is
  /// `ErrorCode::invalid_argument` if another try is useless (a token or certificate that is
  /// refused), else `unavailable`.
  virtual void lost(const Status& why) noexcept = 0;
};

/// One side of a connection that carries messages of up to kMostBytesOfMessage, in their order.
/// Thread-safe. The destructor ends the link; `lost` is not called once it has returned. The
/// destructor may not run within a call of the link's listener.
class WorkerLink {
 public:
  static constexpr std::size_t kMostBytesOfMessage = std::size_t{64} << 20;

  virtual ~WorkerLink() = default;

  /// Enqueues a message after earlier ones; never waits. The owner is released when the message was
  /// sent, or can't be. Messages on a link that has ended are dropped.
  virtual void send(WireBytes message) = 0;
  /// The other side has shown that it is what this side is there for: limits for strangers end.
  virtual void admit() noexcept {}
  /// Ends the link from this side: `lost` follows, if it was not called yet. It may be called
  /// within a call of the listener.
  virtual void close() noexcept = 0;
  /// True if the other side is a process of this machine, which bytes reach undamaged, and which
  /// can read memory of this one.
  virtual bool on_this_machine() const noexcept { return false; }
  /// Lets the other side read this memory from now on. Pieces of later messages that lie there are
  /// not copied, and their owners are released when the other side has read them. Call it once.
  /// REQUIRES:
  /// `on_this_machine()`, and that the other side has connected.
  virtual void share(std::shared_ptr<SharedMemory> /*memory*/) {}
};

/// A listening port. Thread-safe. The destructor ends all accepted links; their listeners are told
/// before it returns.
class WorkerPort {
 public:
  virtual ~WorkerPort() = default;

  /// Returns "host:port", with the port that was chosen if 0 was asked for.
  virtual std::string address() const = 0;
  /// Sets the answer of gRPC's health service from now on. True at the start.
  virtual void set_serving(bool serving) = 0;
  /// Returns the number of connection attempts that were refused.
  virtual std::size_t refused() const noexcept = 0;
};

/// A subscription to a list of addresses. The destructor ends it.
class WorkerWatch {
 public:
  virtual ~WorkerWatch() = default;
};

/// A callback that makes the listener of a link that another process opened to this one. The link
/// lives until that listener's `lost` has returned; `lost` destroys neither. Threads of the
/// transport call it. Null: refused.
using AcceptLink = std::function<std::shared_ptr<LinkListener>(WorkerLink& link)>;

/// The functions of the module.
struct WorkerTransport {
  static constexpr int kVersion = 2;
  int version = kVersion;
  /// Begins to connect to "host:port". `connected` or `lost` follows within `timeout`; `lost` also
  /// follows once the other side was silent for as long. `listener` outlives the link. Throws
  /// Error{invalid_argument} for an address beyond loopback without TLS files and token, and
  /// Error{not_found} for files that can't be read.
  std::unique_ptr<WorkerLink> (*connect)(const std::string& address, const WorkerSecurity& security,
                                         std::chrono::milliseconds timeout,
                                         LinkListener& listener) = nullptr;
  /// Listens on "host:port". Throws as `connect` does, and Error{unavailable} if it can't listen
  /// there.
  std::unique_ptr<WorkerPort> (*listen)(const std::string& address, const WorkerSecurity& security,
                                        AcceptLink accept) = nullptr;
  /// Calls `changed` with all values below "etcd://host:port,…/prefix" once they are known, and
  /// whenever they change. The calls come from a thread of its own. If etcd can't be reached, it
  /// tries again for ever and calls `changed` with the last known values.
  std::unique_ptr<WorkerWatch> (*watch)(
      const std::string& url, const WorkerSecurity& security,
      std::function<void(const std::vector<std::string>&)> changed) = nullptr;
  /// Puts `address` below such a prefix until the result is destroyed. The lease lasts `timeout`
  /// after the last sign of life.
  std::unique_ptr<WorkerWatch> (*announce)(const std::string& url, const WorkerSecurity& security,
                                           std::chrono::milliseconds timeout,
                                           const std::string& address) = nullptr;
};

/// The name under which the module libpenstock_cluster.so exports its WorkerTransportFn.
inline constexpr const char* kWorkerTransportSymbol = "penstock_worker_transport";
using WorkerTransportFn = const WorkerTransport* (*)();

}  // namespace penstock
