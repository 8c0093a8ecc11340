// An HTTP server of files in memory, on the loopback interface, with faults on demand.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "tests/support/object_store.h"

namespace penstock::test {

/// The faults of a server, or of something between it and the client.
enum class HttpFault {
  reset,
  short_body,
  long_body,
  wrong_range,
  whole_for_range,
  forbidden,
  not_found,
  changed,  ///< 412
  too_many,
  internal,
  slow_down,
  html_page,
};
inline constexpr std::array<const char*, 12> kHttpFaultNames{
    "reset", "short body", "long body", "wrong range", "200 for a range", "403",
    "404",   "412",        "429",       "500",         "503 SlowDown",    "an HTML page"};

struct HttpServerOptions {
  /// Every `fault_every`-th request is answered with the next of `faults`; 0: none.
  std::uint64_t fault_every = 0;
  std::vector<HttpFault> faults{};
  std::chrono::microseconds latency{0};  ///< before each answer
  /// Every `stall_every`-th request waits for `stall` before its answer; 0: none.
  std::uint64_t stall_every = 0;
  std::chrono::microseconds stall{0};
  double bytes_per_second = 0;  ///< of each connection; 0: not limited
  bool ranges = true;           ///< false: answers 200 and the whole file, always
  bool etags = true;
  bool etags_differ = false;  ///< each answer has another, and all have one Last-Modified
  bool matches = true;        ///< false: answers 412 to every If-Match
  bool chunked = false;       ///< whole answers come in chunks, without a length
  /// Returns more lines for the head of a good answer.
  std::function<std::string(const std::string& target)> headers{};
  bool conditions = true;  ///< false: writes ignore If-Match and If-None-Match
  /// If it returns a text, that is sent in place of the file: a whole answer, head included.
  std::function<std::string(const std::string& method, const std::string& target)> instead{};
  /// The same, called with the head of the request.
  std::function<std::string(const std::string& head)> instead_of{};
};

/// Serves GET and HEAD with keep-alive, ranges, ETag and If-Match, and takes the writes of an
/// ObjectStore. Stops when it is destroyed. Thread-safe.
class HttpServer {
 public:
  using Files = std::map<std::string, std::string>;  ///< path with its leading '/', contents

  explicit HttpServer(Files files, HttpServerOptions options = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// Returns "http://127.0.0.1:43210".
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::uint16_t port() const noexcept { return port_; }
  std::uint64_t requests() const noexcept { return requests_; }
  /// Returns the most requests that waited for their answers at the same time. Needs a latency.
  std::uint64_t most_at_once() const noexcept { return most_at_once_; }
  std::uint64_t connections() const noexcept { return connections_; }
  std::uint64_t faults() const noexcept { return faults_; }
  std::uint64_t stalls() const noexcept { return stalls_; }
  /// Replaces a file. The ETag changes, too.
  void replace(const std::string& path, std::string contents, std::string mark = {}) {
    store_.put(path, std::move(contents), std::move(mark));
  }
  const ObjectStore& store() const noexcept { return store_; }
  /// Returns the heads and bodies of all requests, one after the other, without long bodies.
  std::string log() const EXCLUDES(mutex_);

 private:
  struct Request {
    std::string method, target, head, body;
    /// Returns the value of a header, whatever the case of its name; empty if there is none.
    std::string header(std::string_view name) const;
  };
  using Held = StoredObject;
  struct Connection {
    int fd = -1;
    std::jthread thread;
  };

  void accept_all();
  void serve(int fd);
  bool answer(int fd, const Request& request);
  bool answer_wrongly(int fd, HttpFault fault, const Held& held, std::uint64_t first,
                      std::uint64_t last);
  bool answer_write(int fd, const Request& request, std::uint64_t number);
  bool answer_write_wrongly(int fd, HttpFault fault, const StoreReply& reply);
  bool answer_status(int fd, HttpFault fault);
  void stall();
  bool send_all(int fd, std::string_view bytes) const;
  bool send_error(int fd, const char* status, const std::string& more,
                  const std::string& body) const;
  static bool read_request(int fd, std::string& buffer, Request& request);

  const HttpServerOptions options_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> at_once_{0};
  std::atomic<std::uint64_t> most_at_once_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<std::uint64_t> stalls_{0};
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  ObjectStore store_;
  std::string log_ GUARDED_BY(mutex_);
  std::list<Connection> open_ GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace penstock::test
