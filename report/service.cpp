#include "report/service.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <thread>

#include <sys/eventfd.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/posix.h>
#include <penstock/internal/start_thread.h>

// A program that embeds Penstock may use Asio and Beast itself, built with other options. So these
// copies have namespaces of our own, which also differ from that of io_uring's copy.
#define asio penstock_report_asio
#define beast penstock_report_beast
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#undef beast
#undef asio

namespace penstock {
namespace {

namespace net = boost::penstock_report_asio;
namespace beast = boost::penstock_report_beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds kPatience{5};
constexpr std::uint32_t kMostHeader = 8 << 10;
constexpr int kMostConnections = 32;

[[noreturn]] void refuse(std::string_view text) {
  throw Error(
      ErrorCode::invalid_argument,
      "\"" + std::string(text) +
          "\" is not an address to serve metrics at; give PORT, ADDRESS:PORT or localhost:PORT");
}

/// One request and its answer.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, const std::function<std::string()>& metrics, int& open)
      : stream_(std::move(socket)), metrics_(metrics), open_(open) {
    ++open_;
    parser_.header_limit(kMostHeader);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { --open_; }

  void run() {
    stream_.expires_after(kPatience);
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->answer(error); });
  }

 private:
  void answer(error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return send(http::status::request_header_fields_too_large, "The request is too long.\n");
    // The error does not come from a connection that was closed, or that took too long.
    const bool malformed =
        error && error.category() == http::make_error_code(http::error::bad_method).category();
    if (malformed && error != http::error::end_of_stream && error != http::error::partial_message)
      return send(http::status::bad_request, "This is not an HTTP request.\n");
    if (error) return;
    const auto& request = parser_.get();
    head_ = request.method() == http::verb::head;
    if (request.method() != http::verb::get && !head_)
      return send(http::status::method_not_allowed, "Only GET and HEAD are answered.\n");
    const std::string_view target(request.target().data(), request.target().size());
    if (target.substr(0, target.find('?')) != "/metrics")
      return send(http::status::not_found, "There is /metrics.\n");
    send(http::status::ok, metrics_());
  }

  void send(http::status status, std::string body) {
    response_.version(11);
    response_.result(status);
    response_.keep_alive(false);
    response_.set(http::field::content_type, status == http::status::ok
                                                 ? "text/plain; version=0.0.4; charset=utf-8"
                                                 : "text/plain; charset=utf-8");
    if (status == http::status::method_not_allowed) response_.set(http::field::allow, "GET, HEAD");
    response_.content_length(body.size());
    if (!head_) response_.body() = std::move(body);
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_, [self = shared_from_this()](error_code, std::size_t) {
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  const std::function<std::string()>& metrics_;
  int& open_;
  beast::flat_buffer buffer_{kMostHeader + 1024};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
  bool head_ = false;
};

}  // namespace

Endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = colon == text.npos ? "" : text.substr(0, colon);
  const std::string_view digits = colon == text.npos ? text : text.substr(colon + 1);
  Endpoint where;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), where.port);
  if (error != std::errc() || stop != digits.data() + digits.size()) refuse(text);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code bad;
  net::ip::make_address(host, bad);
  if (bad) refuse(text);
  where.host = host;
  return where;
}

bool is_loopback(const Endpoint& where) {
  return net::ip::make_address(where.host).is_loopback();
}

class Service::Impl {
 public:
  explicit Impl(ServiceDuties duties)
      : duties_(std::move(duties)), event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (event_ < 0) throw error_from_errno(errno, "make a descriptor to report by", "");
    woken_.assign(event_);
  }

  Endpoint listen(const Endpoint& where) {
    const tcp::endpoint address(net::ip::make_address(where.host), where.port);
    error_code error;
    acceptor_.open(address.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(address, error);
    if (!error) acceptor_.listen(kMostConnections, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error) {
      error_code ignored;
      acceptor_.close(ignored);
      throw Error(ErrorCode::unavailable, "can't serve metrics at " + where.host + ":" +
                                              std::to_string(where.port) + ": " + error.message());
    }
    listener_.store(acceptor_.native_handle(), std::memory_order_relaxed);
    return {where.host, acceptor_.local_endpoint().port()};
  }

  void start() {
    wait_for_wake();
    if (acceptor_.is_open()) accept();
    // Signals are for the program's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = start_thread("reporting", [this] { serve(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void wake() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event_, &one, sizeof one);
  }

  void stop() noexcept {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void abandon() noexcept {
    const int listener = listener_.exchange(-1, std::memory_order_relaxed);
    if (listener >= 0) ::close(listener);
  }

 private:
  // A handler throws only if memory runs out; the other handlers then still run.
  void serve() noexcept {
    ::pthread_setname_np(::pthread_self(), "ps-report");
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (const std::exception&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }

  void wait_for_wake() {
    woken_.async_wait(net::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (error) return;
      std::uint64_t times = 0;
      [[maybe_unused]] const ssize_t got = ::read(event_, &times, sizeof times);
      wait_for_wake();
      call_duty();
    });
  }

  void call_duty() {
    const std::chrono::milliseconds again = duties_.woken();
    if (again.count() < 0) return;
    timer_.expires_after(again);
    timer_.async_wait([this](error_code error) {
      if (!error) call_duty();
    });
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error == net::error::operation_aborted) return;
      if (!error) {
        accept();  // first, because the rest may fail
        if (open_ < kMostConnections)
          std::make_shared<Session>(std::move(socket), duties_.metrics, open_)->run();
        return;
      }
      // No descriptor is available now; one is when an open connection ends.
      pause_.expires_after(std::chrono::milliseconds(100));
      pause_.async_wait([this](error_code) { accept(); });
    });
  }

  const ServiceDuties duties_;
  int open_ = 0;  // connections; outlives the context, and with it the sessions
  net::io_context context_{1};
  const int event_;
  net::posix::stream_descriptor woken_{context_};  // owns event_
  net::steady_timer timer_{context_};
  net::steady_timer pause_{context_};
  tcp::acceptor acceptor_{context_};
  std::atomic<int> listener_{-1};
  Thread thread_;
};

Service::Service(ServiceDuties duties) : impl_(std::make_unique<Impl>(std::move(duties))) {}
Service::~Service() {
  stop();
}
Endpoint Service::listen(const Endpoint& where) {
  return impl_->listen(where);
}
void Service::start() {
  impl_->start();
}
void Service::wake() noexcept {
  impl_->wake();
}
void Service::stop() noexcept {
  impl_->stop();
}
void Service::abandon() noexcept {
  impl_->abandon();
}

}  // namespace penstock
