#include "tests/support/http_server.h"

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::test {
namespace {

std::string small(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string decoded(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%' && i + 2 < path.size()) {
      out += static_cast<char>(std::stoi(std::string(path.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += path[i];
    }
  }
  return out;
}

constexpr std::size_t kMostLogged = 64 << 10;

void reset(int fd) {
  const linger hard{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

}  // namespace

std::string HttpServer::Request::header(std::string_view name) const {
  const std::string lower = small(head);
  const std::size_t at = lower.find("\r\n" + small(std::string(name)) + ':');
  if (at == lower.npos) return {};
  const std::size_t from = head.find_first_not_of(' ', at + 3 + name.size());
  return head.substr(from, head.find('\r', from) - from);
}

HttpServer::HttpServer(Files files, HttpServerOptions options)
    : options_(std::move(options)), store_(options_.conditions) {
  for (auto& [path, contents] : files) replace(path, std::move(contents));
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 512) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("can't listen");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  std::list<Connection> open;
  {
    const MutexLock lock(mutex_);
    open.swap(open_);
  }
  for (Connection& connection : open) ::shutdown(connection.fd, SHUT_RDWR);
  for (Connection& connection : open) {
    connection.thread.join();
    ::close(connection.fd);
  }
}

std::string HttpServer::log() const {
  const MutexLock lock(mutex_);
  return log_;
}

void HttpServer::accept_all() {
  while (!stopping_) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ++connections_;
    const MutexLock lock(mutex_);
    open_.push_back({fd, std::jthread([this, fd] { serve(fd); })});
  }
}

void HttpServer::serve(int fd) {
  std::string buffer;
  Request request;
  while (!stopping_ && read_request(fd, buffer, request)) {
    {
      const MutexLock lock(mutex_);
      log_ += request.head + "\n" + (request.body.size() <= kMostLogged ? request.body : "");
    }
    if (options_.latency.count() > 0) {
      const std::uint64_t now = ++at_once_;
      std::uint64_t most = most_at_once_;
      while (most < now && !most_at_once_.compare_exchange_weak(most, now)) {
      }
      std::this_thread::sleep_for(options_.latency);
      --at_once_;
    }
    if (!answer(fd, request)) break;
  }
  ::shutdown(fd, SHUT_RDWR);
  // Closed by the destructor, so that nobody else gets the number while it may be shut down.
}

bool HttpServer::read_request(int fd, std::string& buffer, Request& request) {
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == buffer.npos) {
    char bytes[4096];
    const ssize_t n = ::recv(fd, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    buffer.append(bytes, static_cast<std::size_t>(n));
  }
  request.head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  const std::size_t blank = request.head.find(' ');
  request.method = request.head.substr(0, blank);
  request.target = request.head.substr(blank + 1, request.head.find(' ', blank + 1) - blank - 1);
  const std::string length = request.header("Content-Length");
  const std::size_t bytes = length.empty() ? 0 : std::stoul(length);
  while (buffer.size() < bytes) {
    char more[4096];
    const ssize_t n = ::recv(fd, more, sizeof(more), 0);
    if (n <= 0) return false;
    buffer.append(more, static_cast<std::size_t>(n));
  }
  request.body = buffer.substr(0, bytes);
  buffer.erase(0, bytes);
  return true;
}

bool HttpServer::send_all(int fd, std::string_view bytes) const {
  constexpr std::size_t kPiece = 16 << 10;
  const auto start = std::chrono::steady_clock::now();
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const std::size_t n =
        options_.bytes_per_second > 0 ? std::min(kPiece, bytes.size() - sent) : bytes.size() - sent;
    const ssize_t done = ::send(fd, bytes.data() + sent, n, MSG_NOSIGNAL);
    if (done <= 0) return false;
    sent += static_cast<std::size_t>(done);
    if (options_.bytes_per_second > 0)
      std::this_thread::sleep_until(
          start + std::chrono::microseconds(static_cast<std::int64_t>(
                      1e6 * static_cast<double>(sent) / options_.bytes_per_second)));
  }
  return true;
}

bool HttpServer::send_error(int fd, const char* status, const std::string& more,
                            const std::string& body) const {
  return send_all(fd, std::string("HTTP/1.1 ") + status + "\r\n" + more +
                          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

void HttpServer::stall() {
  ++stalls_;
  const auto until = std::chrono::steady_clock::now() + options_.stall;
  while (!stopping_ && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

bool HttpServer::answer(int fd, const Request& request) {
  const std::uint64_t number = ++requests_;
  if (options_.stall_every > 0 && number % options_.stall_every == 0) stall();
  if (options_.instead) {
    const std::string instead = options_.instead(request.method, request.target);
    if (!instead.empty()) return send_all(fd, instead);
  }
  if (options_.instead_of) {
    const std::string instead = options_.instead_of(request.head);
    if (!instead.empty()) return send_all(fd, instead);
  }
  const std::string path = decoded(request.target.substr(0, request.target.find('?')));
  if (request.method != "GET" && request.method != "HEAD") return answer_write(fd, request, number);
  const bool is_head = request.method == "HEAD";
  const std::shared_ptr<const Held> held = store_.find(path);
  if (held == nullptr)
    return send_error(fd, "404 Not Found", "", is_head ? "" : "there is no " + path + "\nreally\n");
  const std::string& contents = held->contents;
  const std::string range = options_.ranges ? request.header("Range") : "";
  std::uint64_t first = 0;
  std::uint64_t last = contents.empty() ? 0 : contents.size() - 1;
  const bool ranged = std::sscanf(range.c_str(), "bytes=%" SCNu64 "-%" SCNu64, &first, &last) == 2;
  if (options_.fault_every > 0 && number % options_.fault_every == 0 && !is_head) {
    const std::size_t which = number / options_.fault_every % options_.faults.size();
    ++faults_;
    return answer_wrongly(fd, options_.faults[which], *held, first, last);
  }
  std::string etag = options_.etags ? "ETag: " + held->etag + "\r\n" : "";
  if (options_.etags_differ)
    etag = "ETag: \"" + std::to_string(number) +
           "\"\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
  if (options_.headers) etag += options_.headers(request.target);
  if (!held->mark.empty()) etag += "x-amz-meta-penstock-write: " + held->mark + "\r\n";
  const std::string if_match = request.header("If-Match");
  if (!if_match.empty() && (!options_.matches || if_match != held->etag))
    return send_error(fd, "412 Precondition Failed", etag, "another version\n");
  if (ranged && first >= contents.size())
    return send_error(fd, "416 Range Not Satisfiable",
                      "Content-Range: bytes */" + std::to_string(contents.size()) + "\r\n", "");
  last = std::min<std::uint64_t>(last, contents.empty() ? 0 : contents.size() - 1);
  const std::string_view body = ranged ? std::string_view(contents).substr(first, last - first + 1)
                                       : std::string_view(contents);
  std::string head = ranged ? "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                                  std::to_string(first) + '-' + std::to_string(last) + '/' +
                                  std::to_string(contents.size()) + "\r\n"
                            : std::string("HTTP/1.1 200 OK\r\n");
  if (options_.chunked && !ranged && !is_head && !body.empty()) {
    char length[32];
    std::snprintf(length, sizeof(length), "%zx\r\n", body.size());
    return send_all(fd, head + etag + "Transfer-Encoding: chunked\r\n\r\n" + length +
                            std::string(body) + "\r\n0\r\n\r\n");
  }
  head += etag + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  if (!send_all(fd, head)) return false;
  return is_head || send_all(fd, body);
}

bool HttpServer::answer_write(int fd, const Request& request, std::uint64_t number) {
  const std::size_t query = std::min(request.target.find('?'), request.target.size());
  const StoreRequest asked{request.method,
                           decoded(request.target.substr(0, query)),
                           request.target.substr(std::min(query + 1, request.target.size())),
                           request.body,
                           request.header("If-Match"),
                           request.header("If-None-Match"),
                           request.header("x-amz-meta-penstock-write")};
  const bool wrong = options_.fault_every > 0 && number % options_.fault_every == 0;
  const std::size_t which = wrong ? number / options_.fault_every : 0;
  // What goes wrong, goes wrong before it is done, and the next time behind it.
  const bool done = !wrong || which / options_.faults.size() % 2 == 1;
  const StoreReply reply = done ? store_.write(asked) : StoreReply();
  if (wrong) {
    ++faults_;
    return answer_write_wrongly(fd, options_.faults[which % options_.faults.size()], reply);
  }
  return send_error(fd, reply.status.c_str(), reply.headers, reply.body);
}

bool HttpServer::answer_write_wrongly(int fd, HttpFault fault, const StoreReply& reply) {
  switch (fault) {
    case HttpFault::reset:
      reset(fd);
      return false;
    case HttpFault::short_body:
      send_all(fd, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\n" + reply.headers +
                       "Content-Length: 1000\r\n\r\n" + reply.body);
      return false;
    case HttpFault::long_body:
      send_all(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nand more of it");
      return false;
    case HttpFault::wrong_range:
      return send_error(fd, "206 Partial Content", "Content-Range: bytes 0-0/1\r\n", "x");
    case HttpFault::whole_for_range:
      return send_error(fd, "200 OK", "", "");
    default:
      return answer_status(fd, fault);
  }
}

bool HttpServer::answer_wrongly(int fd, HttpFault fault, const Held& held, std::uint64_t first,
                                std::uint64_t last) {
  const std::string& contents = held.contents;
  const std::string size = std::to_string(contents.size());
  const std::string etag = "ETag: " + held.etag + "\r\n";
  const auto part = [&](std::uint64_t from, std::uint64_t to, std::uint64_t promised) {
    return "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + '-' +
           std::to_string(to) + '/' + size + "\r\n" + etag +
           "Content-Length: " + std::to_string(promised) + "\r\n\r\n";
  };
  const std::uint64_t bytes = last - first + 1;
  switch (fault) {
    case HttpFault::reset:
      send_all(fd, part(first, last, bytes) + contents.substr(first, bytes / 2));
      reset(fd);
      return false;
    case HttpFault::short_body:
      send_all(fd, part(first, last, bytes) + contents.substr(first, bytes / 2));
      return false;
    case HttpFault::long_body:
      send_all(fd, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(first) +
                       '-' + std::to_string(last) + '/' + size + "\r\n" + etag +
                       "Connection: close\r\n\r\n" + contents.substr(first, bytes) +
                       "and more of it");
      return false;
    case HttpFault::wrong_range:
      return send_all(fd, part(0, 0, 1) + contents.substr(0, 1));
    case HttpFault::whole_for_range:
      return send_error(fd, "200 OK", etag, contents + "x");
    default:
      return answer_status(fd, fault);
  }
}

bool HttpServer::answer_status(int fd, HttpFault fault) {
  switch (fault) {
    case HttpFault::forbidden:
      return send_error(fd, "403 Forbidden", "", "<Error><Code>AccessDenied</Code></Error>");
    case HttpFault::not_found:
      return send_error(fd, "404 Not Found", "", "for the moment\n");
    case HttpFault::changed:
      return send_error(fd, "412 Precondition Failed", "", "");
    case HttpFault::too_many:
      return send_error(fd, "429 Too Many Requests", "Retry-After: 0\r\n", "");
    case HttpFault::internal:
      return send_error(fd, "500 Internal Server Error", "", "oops\n");
    case HttpFault::slow_down:
      return send_error(fd, "503 Service Unavailable", "", "<Error><Code>SlowDown</Code></Error>");
    case HttpFault::html_page:
      return send_error(fd, "200 OK", "Content-Type: text/html\r\n",
                        "<!DOCTYPE html>\n<html>Please log in</html>");
    default:
      return false;
  }
}

}  // namespace penstock::test
