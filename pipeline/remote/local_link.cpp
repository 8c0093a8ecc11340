#include "pipeline/remote/local_link.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <penstock/internal/start_thread.h>

#include "pipeline/core/thread_name.h"
#include "pipeline/remote/local_stream.h"

namespace penstock::remote {
namespace {

using std::chrono::milliseconds;

/// The time without a sign of life after which a run is lost, as over the network.
const milliseconds kRunTimeout = WorkerOptions{}.timeout;
constexpr std::size_t kMostLinks = 256;
constexpr int kBacklog = 64;
constexpr milliseconds kWithoutDescriptors{50};

/// An abstract name: no file, and seen by the same processes as the port on loopback.
struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// Returns the name of the worker at "host:port"; nothing if that is not on loopback.
std::optional<Name> name_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = address.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host != "[::1]" && !host.starts_with("127.")) return std::nullopt;
  const std::string text = "penstock-worker@" + host + address.substr(colon);
  Name name;
  if (text.size() + 1 > sizeof name.address.sun_path) return std::nullopt;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

UniqueFd open_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// True if the process at the other end belongs to this process's user.
bool is_of_this_user(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

class LocalLink final : public WorkerLink {
 public:
  /// `other` names the other side in errors.
  /// `tell`: an eventfd to write to when it has ended, or -1.
  LocalLink(UniqueFd socket, bool dialed, milliseconds timeout, std::string other, int tell)
      : other_(std::move(other)),
        dialed_(dialed),
        tell_(tell),
        stream_(std::make_shared<LocalStream>(std::move(socket), dialed, timeout)) {}
  LocalLink(const LocalLink&) = delete;
  LocalLink& operator=(const LocalLink&) = delete;
  ~LocalLink() override {
    close();
    if (thread_.joinable()) thread_.join();
  }

  /// Begins to receive. Throws Error{resource_exhausted} if there is no thread for it.
  void begin(std::shared_ptr<LinkListener> listener) {
    listener_ = std::move(listener);
    if (!dialed_) stream_->greet();
    thread_ = start_thread("a connection to a worker", [this] {
      name_this_thread("penstock-link");
      stream_->read(*listener_);
      listener_->lost(why_lost());
      listener_.reset();
      ended_ = true;
      if (tell_ >= 0) ::eventfd_write(tell_, 1);
    });
  }
  bool ended() const noexcept { return ended_; }

  void send(WireBytes message) override { stream_->send(std::move(message)); }
  void admit() noexcept override { stream_->admit(); }
  void close() noexcept override { stream_->end("it was closed from this side"); }
  bool on_this_machine() const noexcept override { return true; }
  void share(std::shared_ptr<SharedMemory> memory) override { stream_->share(std::move(memory)); }

 private:
  Status why_lost() const noexcept try {
    if (const char* const why = stream_->why())
      return {ErrorCode::unavailable, "the connection to " + other_ + " is over: " + why};
    if (dialed_ && !stream_->greeted())
      return {ErrorCode::unavailable, other_ + " was not reached: it accepts no runs"};
    return {ErrorCode::unavailable,
            "the connection to " + other_ + " was lost: closed by the other side"};
  } catch (...) {
    return Status::out_of_memory();
  }

  const std::string other_;
  const bool dialed_;
  const int tell_;
  const std::shared_ptr<LocalStream> stream_;
  std::shared_ptr<LinkListener> listener_;  // released by the thread, at the end
  std::atomic<bool> ended_{false};
  Thread thread_;
};

class LocalPort final : public WorkerPort {
 public:
  LocalPort(UniqueFd socket, UniqueFd wake, std::string address, AcceptLink accept)
      : socket_(std::move(socket)),
        wake_(std::move(wake)),
        address_(std::move(address)),
        accept_(std::move(accept)) {
    thread_ = start_thread("accepting runs", [this] { take_runs(); });
  }
  LocalPort(const LocalPort&) = delete;
  LocalPort& operator=(const LocalPort&) = delete;
  ~LocalPort() override {
    over_ = true;
    ::eventfd_write(wake_.get(), 1);
    thread_ = {};
    links_.clear();
  }

  std::string address() const override { return address_; }
  void set_serving(bool) override {}
  std::size_t refused() const noexcept override { return refused_; }

 private:
  void take_runs() noexcept {
    while (!over_) {
      std::array<pollfd, 2> polled{{{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
      ::poll(polled.data(), polled.size(), -1);
      if (over_) return;
      eventfd_t ignored = 0;
      if (polled[1].revents != 0) ::eventfd_read(wake_.get(), &ignored);
      const int accepted = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (accepted < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        ::poll(&polled[1], 1, static_cast<int>(kWithoutDescriptors.count()));
      links_.remove_if([](const LocalLink& link) { return link.ended(); });
      UniqueFd socket(accepted);
      if (!socket) continue;
      try {
        if (!is_of_this_user(socket.get()) || links_.size() >= kMostLinks || !let_in(socket))
          ++refused_;
      } catch (...) {  // no memory or no thread: the run tries again
        ++refused_;
      }
    }
  }

  bool let_in(UniqueFd& socket) {
    LocalLink& link = links_.emplace_back(std::move(socket), false, kRunTimeout,
                                          "a run of this machine", wake_.get());
    std::shared_ptr<LinkListener> listener;
    try {
      listener = accept_(link);
      if (listener) link.begin(listener);
    } catch (...) {
      if (listener) listener->lost(Status(ErrorCode::unavailable, "there is no thread for it"));
      links_.pop_back();
      throw;
    }
    if (!listener) links_.pop_back();
    return listener != nullptr;
  }

  const UniqueFd socket_;
  const UniqueFd wake_;
  const std::string address_;
  const AcceptLink accept_;
  std::atomic<bool> over_{false};
  std::atomic<std::size_t> refused_{0};
  std::list<LocalLink> links_;  // used by the thread, and by the destructor behind it
  Thread thread_;
};

}  // namespace

std::unique_ptr<WorkerLink> connect_locally(const std::string& address, milliseconds timeout,
                                            LinkListener& listener) {
  const std::optional<Name> name = name_of(address);
  UniqueFd socket = name ? open_socket() : UniqueFd();
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name->address), name->size) != 0 ||
      !is_of_this_user(socket.get()))
    return nullptr;
  auto link = std::make_unique<LocalLink>(
      std::move(socket), true, std::max(timeout, milliseconds(2)), "the worker at " + address, -1);
  // Its owner keeps it alive for longer than the link.
  link->begin(std::shared_ptr<LinkListener>(&listener, [](LinkListener*) {}));
  return link;
}

std::unique_ptr<WorkerPort> listen_locally(const std::string& address, AcceptLink accept) {
  const std::optional<Name> name = name_of(address);
  UniqueFd socket = name ? open_socket() : UniqueFd();
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!socket || !wake ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name->address), name->size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    return nullptr;
  return std::make_unique<LocalPort>(std::move(socket), std::move(wake), address,
                                     std::move(accept));
}

}  // namespace penstock::remote
