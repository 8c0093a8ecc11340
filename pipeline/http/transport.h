// The interface to libcurl, which is in a module that is opened at the first remote path.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::http {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers{};  ///< "Name: value"
  std::string body{};
  /// Used as the body instead of `body` unless empty, so that large bodies are not copied.
  /// REQUIRES: lives until the sink is done.
  std::string_view content{};
  std::chrono::milliseconds timeout{60'000};  ///< of the whole exchange
  std::chrono::milliseconds stall{15'000};    ///< longest time with less than 1 KiB a second
  /// Refuse to connect to a loopback, link-local or private address (address.h). Behind a proxy,
  /// only the proxy could tell.
  bool public_only = false;

  std::string_view sent() const noexcept {
    return content.empty() ? std::string_view(body) : content;
  }
};

/// How an exchange ended.
struct HttpEnd {
  bool complete = false;      ///< head and body arrived with the length that the head gives
  bool stopped = false;       ///< the sink ended the exchange
  bool lasting = false;       ///< not complete, and a retry would fail too: no such host, …
  bool private_peer = false;  ///< the server has a loopback, link-local or private address
  std::string_view failure;   ///< why it is not complete, without the URL's secrets
  double first_byte_s = 0;    ///< from the request to the first byte of the answer
  double total_s = 0;         ///< to the last one
  std::uint64_t body_bytes = 0;
};

/// Receives an answer. The transport's thread calls the functions in this order; they must not
/// block.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  /// Takes one line of the head without its line end; an empty line ends a head. The head of a 1xx
  /// answer comes first.
  virtual bool head_line(std::string_view line) noexcept = 0;
  /// Takes a part of the body. Returns false to end the exchange; the connection is then closed.
  virtual bool body(std::span<const std::byte> bytes) noexcept = 0;
  /// Takes note of the end. No call follows.
  virtual void done(const HttpEnd& end) noexcept = 0;
};

/// Carries out requests on its own thread. Thread-safe.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  /// Starts a request and returns its number. Calls `sink.done` exactly once, within the request's
  /// timeout or soon after, unless it throws: Error{resource_exhausted}, or Error{unavailable} in a
  /// forked process. REQUIRES: `sink` lives until `done` is called.
  virtual std::uint64_t start(const HttpRequest& request, HttpSink& sink) = 0;
  /// Ends a request soon, if it has not ended. Its sink's `done` is called.
  virtual void cancel(std::uint64_t number) noexcept = 0;
};

struct TransportOptions {
  std::size_t connections = 32;
  std::string ca_file;
  bool insecure = false;
  std::string user_agent;
};

using Sha256 = std::array<std::uint8_t, 32>;
using Md5 = std::array<std::uint8_t, 16>;

/// The functions of the module. Its only symbol is a function that returns this.
struct RemoteModule {
  static constexpr int kVersion = 6;
  int version = 0;
  std::unique_ptr<HttpTransport> (*open)(const TransportOptions& options) = nullptr;
  /// Returns versions, such as "libcurl/7.88.1 OpenSSL/3.0.15".
  std::string (*describe)() = nullptr;
  Sha256 (*sha256)(std::string_view data) = nullptr;
  Sha256 (*hmac_sha256)(std::string_view key, std::string_view data) = nullptr;
  /// Returns nothing where this machine's OpenSSL has no MD5, as in builds that follow FIPS 140.
  std::optional<Md5> (*md5)(std::string_view data) = nullptr;
};
inline constexpr const char* kRemoteModuleFile = "libpenstock_remote.so";
inline constexpr const char* kRemoteModuleSymbol = "penstock_remote_module";

/// Returns the module, and opens it at the first call. Throws Error{invalid_argument} that says
/// what is missing. Thread-safe.
const RemoteModule& remote_module();

}  // namespace penstock::http
