// HTTP with libcurl's multi interface, on one thread.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <curl/curl.h>
#include <sys/types.h>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/transport.h"

namespace penstock::http {

/// The transport of libcurl. Connections are reused. It speaks HTTP/1.1, since one connection for
/// all requests would be slower than many. libcurl finds proxies in the environment.
class CurlDriver final : public HttpTransport {
 public:
  /// Throws Error{resource_exhausted}.
  explicit CurlDriver(TransportOptions options);
  ~CurlDriver() override;
  CurlDriver(const CurlDriver&) = delete;
  CurlDriver& operator=(const CurlDriver&) = delete;

  std::uint64_t start(const HttpRequest& request, HttpSink& sink) override;
  void cancel(std::uint64_t number) noexcept override;

 private:
  struct Exchange;
  struct Host {
    std::chrono::steady_clock::time_point first_asked;
    bool reached = false;
  };

  void run() noexcept;
  void begin_new() noexcept;
  void end_cancelled() noexcept;
  void begin(std::unique_ptr<Exchange> exchange) noexcept;
  void finish(CURL* easy, CURLcode code) noexcept;
  /// Returns true if the host of a request that ended with `code` does not resolve, and a retry
  /// would not help.
  bool stays_unresolved(const std::string& url, CURLcode code) noexcept;
  void give_up() noexcept;

  static std::size_t on_head(char* data, std::size_t size, std::size_t count, void* exchange);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* exchange);
  static curl_socket_t on_socket(void* exchange, curlsocktype purpose, curl_sockaddr* address);
  static int on_connection(void* exchange, char* ip, char* own_ip, int port, int own_port);

  const TransportOptions options_;
  const pid_t process_;
  CURLM* multi_ = nullptr;

  Mutex mutex_;
  std::deque<std::unique_ptr<Exchange>> new_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> cancelled_ GUARDED_BY(mutex_);
  std::uint64_t last_number_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;

  // Used only by the thread.
  std::vector<Exchange*> under_way_;
  std::vector<CURL*> idle_;
  std::map<std::string, Host> hosts_;  // by origin

  Thread thread_;
};

}  // namespace penstock::http
