#include "cluster/net/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <penstock/error.h>
#include <penstock/internal/worker_links.h>
#include <penstock/log.h>

#include "cluster/net/credentials.h"
#include "cluster/net/peer_user.h"
#include "cluster/net/room.h"

namespace penstock::cluster {
namespace {

constexpr int kBacklog = 1024;
constexpr int kLookMs = 500;
constexpr int kLookAtStrangersMs = 20;
constexpr int kLookAtMessagesMs = 100;
constexpr int kRetryMs = 20;
constexpr int kMostTaken = 64;

bool is_exhaustion(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

int port_of(const sockaddr_storage& address) noexcept {
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// Returns the port in gRPC's name of a peer: "ipv4:127.0.0.1:4711".
int port_of(std::string_view peer) noexcept {
  const std::string_view text = peer.substr(peer.rfind(':') + 1);
  int port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

/// The numbers of bytes that came by a connection, and that the peer acknowledged.
struct Traffic {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};

/// Returns zeros where the kernel does not tell.
Traffic traffic_of(int fd) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {info.tcpi_bytes_received, info.tcpi_bytes_acked};
}

/// Returns how many connections strangers may have, each with two descriptors: an eighth of all.
std::size_t share_of_descriptors() noexcept {
  constexpr std::size_t kLeast = 8;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return std::max<std::size_t>(kLeast, limit.rlim_cur / 8);
}

/// Tells the user why a process is not heard.
void say_cut_off() noexcept try {
  log_once(LogLevel::warning, "a process of another user",
           "a process of another user connected to this job and was cut off: without a token, only "
           "processes of the same user are accepted (--token-file, PENSTOCK_TOKEN)");
} catch (const std::exception&) {  // no memory for the message
}

/// Makes an eventfd readable.
void ring(int fd) noexcept {
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);
}

/// Ends a connection at once. After shutdown(2), gRPC would continue reading as long as bytes come.
void reset(int fd) noexcept {
  sockaddr none{};
  none.sa_family = AF_UNSPEC;
  if (::connect(fd, &none, sizeof none) != 0) ::shutdown(fd, SHUT_RDWR);
}

/// Returns a socket that listens at the address, none and errno if it can't.
UniqueFd listening(const addrinfo& at, int port) noexcept {
  UniqueFd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  sockaddr_storage address{};
  std::copy_n(reinterpret_cast<const char*>(at.ai_addr), at.ai_addrlen,
              reinterpret_cast<char*>(&address));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    const int only = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) ? 0 : 1;
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(static_cast<std::uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<std::uint16_t>(port));
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return {};
  return fd;
}

}  // namespace

Acceptor::Acceptor(grpc::ServerBuilder& builder, const std::string& address, const TlsFiles& tls,
                   std::size_t most_strangers, From from, std::chrono::milliseconds cut_after)
    : most_strangers_(std::min(most_strangers, share_of_descriptors())),
      from_(from),
      cut_after_ms_(static_cast<int>(
          std::clamp<std::chrono::milliseconds::rep>(cut_after.count(), 0, 3'600'000))) {
  require_room_for_grpc();
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos)
    throw Error(ErrorCode::invalid_argument, "\"" + address + "\" is not HOST:PORT");
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::shared_ptr<grpc::ServerCredentials> credentials = server_credentials(tls);
  listen(host, address.substr(colon + 1));
  if (listeners_.empty())
    throw Error(ErrorCode::unavailable,
                "can't listen at " + address + ": the address is in use, or is not this host's");
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  stranger_came_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_ || !stranger_came_)
    throw Error(ErrorCode::resource_exhausted,
                "can't open an eventfd: " + std::generic_category().message(errno));
  polled_.reserve(listeners_.size() + 1);
  polled_.push_back({wake_.get(), POLLIN, 0});
  for (const UniqueFd& listener : listeners_) polled_.push_back({listener.get(), POLLIN, 0});
  grpc_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void Acceptor::stop() noexcept {
  accepting_.request_stop();
  watching_.request_stop();
  ring(wake_.get());
  if (accepting_.joinable()) accepting_.join();
  if (watching_.joinable()) watching_.join();
}

void Acceptor::start() {
  accepting_ =
      start_thread("accepting connections", [this](const std::stop_token& stop) { accept(stop); });
  // gRPC may read from a new connection in the thread that hands it over, for as long as bytes
  // come.
  watching_ =
      start_thread("watching connections", [this](const std::stop_token& stop) { watch(stop); });
}

void Acceptor::listen(const std::string& host, const std::string& port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  int chosen = 0;
  std::from_chars(port.data(), port.data() + port.size(), chosen);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    // All addresses of a name have the same port.
    UniqueFd fd = listening(*at, port_ != 0 ? port_ : chosen);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (!fd || ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) continue;
    port_ = port_of(own);
    listeners_.push_back(std::move(fd));
  }
}

void Acceptor::accept(const std::stop_token& stop) noexcept {
  bool exhausted = false;
  while (!stop.stop_requested()) {
    // Without descriptors, the listeners would be ready all the time.
    ::poll(polled_.data(), exhausted ? 1 : polled_.size(), exhausted ? kRetryMs : -1);
    exhausted = false;
    for (const UniqueFd& listener : listeners_)
      if (!stop.stop_requested() && !take(listener.get())) exhausted = true;
  }
}

void Acceptor::watch(const std::stop_token& stop) noexcept {
  pollfd watched[] = {{wake_.get(), POLLIN, 0}, {stranger_came_.get(), POLLIN, 0}};
  while (!stop.stop_requested()) {
    const int until_next = look();
    ::poll(watched, until_next == kLookAtStrangersMs ? 1 : 2, until_next);
    std::uint64_t rung = 0;
    (void)!::read(stranger_came_.get(), &rung, sizeof rung);
  }
}

/// Accepts what waits. Returns false if something is left for lack of descriptors or memory.
bool Acceptor::take(int listener) noexcept {
  for (int i = 0; i < kMostTaken; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    UniqueFd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && errno == EAGAIN) return true;
    if (!fd && !is_exhaustion(errno)) continue;  // the connection is over already
    UniqueFd second(fd ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3) : -1);
    if (!second) {
      if (drop_oldest()) continue;
      return false;
    }
    if (from_ == From::this_user && is_of_another_user(fd.get())) {
      reset(fd.get());
      say_cut_off();
      continue;
    }
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (cut_after_ms_ > 0)
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &cut_after_ms_, sizeof cut_after_ms_);
    try {
      {
        const MutexLock lock(mutex_);
        connections_.push_back({std::move(second), port_of(peer), Clock::now(), 0, 0, {}});
        ++strangers_;
      }
      ring(stranger_came_.get());
      while (drop_oldest(most_strangers_)) continue;
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.listener_fd = listener;
      parameters.fd = fd.release();
      grpc_->HandleNewConnection(&parameters);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  return true;
}

// Returns the most bytes that may have come by a connection on which so many were sent.
std::uint64_t Acceptor::most_bytes(const Connection& connection, std::uint64_t sent,
                                   Clock::time_point now) noexcept {
  const std::uint64_t most = connection.bytes + kMostBytesOfStranger;
  if (!connection.of_messages) return connection.calls == 0 ? most : UINT64_MAX;
  // Pings, and frames that give room for what is sent.
  constexpr std::uint64_t kOfSecond = 1 << 10;
  constexpr std::uint64_t kShareOfSent = 64;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - connection.since);
  return most + WorkerLink::kMostBytesOfMessage + *connection.of_messages + sent / kShareOfSent +
         kOfSecond * static_cast<std::uint64_t>(seconds.count());
}

/// Drops connections that are over, and those that say too much, and strangers that say nothing for
/// long.
int Acceptor::look() noexcept {
  const auto now = Clock::now();
  bool counted = false;
  std::list<Connection> over;
  const MutexLock lock(mutex_);
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto next = std::next(at);
    pollfd state{at->fd.get(), POLLRDHUP, 0};
    const bool stranger = at->calls == 0;
    counted = counted || at->of_messages;
    const Traffic traffic = traffic_of(at->fd.get());
    if (::poll(&state, 1, 0) > 0 || (stranger && now - at->since > kMostSilence) ||
        traffic.received > most_bytes(*at, traffic.sent, now)) {
      if (stranger) --strangers_;
      reset(at->fd.get());
      over.splice(over.end(), connections_, at);
    }
    at = next;
  }
  return strangers_ > 0 ? kLookAtStrangersMs : counted ? kLookAtMessagesMs : kLookMs;
}

/// Ends the connection of the oldest stranger. Returns false if there are at most as many.
bool Acceptor::drop_oldest(std::size_t unless_at_most) noexcept {
  std::list<Connection> over;
  const MutexLock lock(mutex_);
  if (strangers_ <= unless_at_most) return false;
  const auto oldest = std::ranges::find(connections_, 0, &Connection::calls);
  if (oldest == connections_.end()) return false;
  reset(oldest->fd.get());
  over.splice(over.end(), connections_, oldest);
  --strangers_;
  return true;
}

void Acceptor::accepted(const std::string& peer) noexcept {
  const int port = port_of(peer);
  const MutexLock lock(mutex_);
  for (Connection& connection : connections_) {
    if (connection.port != port || connection.calls++ > 0) continue;
    --strangers_;
    connection.since = Clock::now();
    connection.bytes = traffic_of(connection.fd.get()).received;
    connection.of_messages = 0;
  }
}

void Acceptor::received(const std::string& peer, std::uint64_t bytes) noexcept {
  const int port = port_of(peer);
  const MutexLock lock(mutex_);
  // Frames of HTTP/2 and records of TLS take a hundredth.
  constexpr std::uint64_t kOfHead = 256;
  for (Connection& connection : connections_)
    if (connection.port == port && connection.of_messages)
      *connection.of_messages += bytes + bytes / 32 + kOfHead;
}

void Acceptor::keep(const std::string& peer) noexcept {
  const int port = port_of(peer);
  const MutexLock lock(mutex_);
  for (Connection& connection : connections_) {
    if (connection.port != port || connection.calls > 0) continue;
    connection.calls = 1;
    --strangers_;
  }
}

void Acceptor::ended(const std::string& peer) noexcept {
  const int port = port_of(peer);
  const MutexLock lock(mutex_);
  for (Connection& connection : connections_) {
    if (connection.port != port || connection.calls == 0 || --connection.calls > 0) continue;
    connection.since = Clock::now();
    connection.of_messages.reset();
    // The rest of what was on its way is thrown away.
    connection.bytes = traffic_of(connection.fd.get()).received + WorkerLink::kMostBytesOfMessage;
    ++strangers_;
  }
}

}  // namespace penstock::cluster
