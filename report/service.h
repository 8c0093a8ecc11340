// The thread that reports: it writes files when it is woken, and answers requests for metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

/// An address and port to listen on.
struct Endpoint {
  std::string host;  ///< an address of IP version 4 or 6
  std::uint16_t port = 0;
};
/// Parses "9400" and ":9400" (on the loopback interface), "localhost:9400", "0.0.0.0:9400" or
/// "[::]:9400". Throws Error{invalid_argument}. Refuses names other than localhost, because they
/// would require a lookup.
Endpoint parse_endpoint(std::string_view text);
/// Returns true if only this machine can reach the endpoint.
bool is_loopback(const Endpoint& where);

/// The functions that the service's thread calls. Only that thread calls them; neither may throw.
struct ServiceDuties {
  /// Called after `wake`, or when the time that the last call returned is over. Returns the time
  /// until the next call; if negative, the next call comes after the next `wake`.
  std::function<std::chrono::milliseconds()> woken;
  std::function<std::string()> metrics;
};

/// One thread for files, and for HTTP: GET and HEAD of /metrics. Limits: 8 KiB and 5 s for a
/// request, and 32 connections at once. Closes connections that are slower, and refuses requests
/// that are longer.
class Service {
 public:
  /// Throws Error{resource_exhausted} if no descriptor is available.
  explicit Service(ServiceDuties duties);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  /// Listens on the endpoint. Call it before `start`. Returns the endpoint, with the port that was
  /// chosen for 0. Throws Error{unavailable} if the port is taken, or if the address is not one of
  /// this machine.
  Endpoint listen(const Endpoint& where);
  /// Starts the thread. Throws Error{resource_exhausted} if no thread can be started.
  void start();
  /// Makes the thread call `woken`. May be called by a signal handler.
  void wake() noexcept;
  /// Ends the thread, if necessary after the call that it is in. Idempotent.
  void stop() noexcept;
  /// For a child of `fork`, which does not have the thread: closes the listening socket there.
  /// Async-signal-safe.
  void abandon() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
