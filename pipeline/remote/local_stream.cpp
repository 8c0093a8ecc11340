#include "pipeline/remote/local_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "pipeline/remote/messages.h"

namespace penstock::remote {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x31'6b'74'53;  // changes with the layout of frames
constexpr std::uint64_t kInline = UINT64_MAX;
constexpr std::uint64_t kMostParts = std::uint64_t{1} << 16;
/// The answers under way are bounded by the users of links, and are fewer.
constexpr std::size_t kMostUnsent = 8192;
constexpr std::size_t kBuffer = std::size_t{16} << 10;
/// Up to so many bytes are sent by the thread that has them, which costs less than to wake another.
constexpr std::size_t kSentAtOnce = std::size_t{64} << 10;
constexpr std::size_t kMostOfStranger = std::size_t{4} << 20;

UniqueFd opened(int fd) {
  UniqueFd owned(fd);
  if (!owned) throw error_from_errno(errno, "open a descriptor for", "a connection to a worker");
  return owned;
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

}  // namespace

/// The owner of a received message, some of whose pieces are in the sender's memory.
class LocalStream::Reading {
 public:
  Reading(std::shared_ptr<LocalStream> stream, std::uint64_t number,
          std::shared_ptr<const SharedView> view, std::shared_ptr<std::byte[]> bytes)
      : stream_(std::move(stream)),
        number_(number),
        view_(std::move(view)),
        bytes_(std::move(bytes)) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    try {
      stream_->put(frame(Kind::released, number_));
    } catch (...) {
      stream_->end("no memory for a message");
    }
  }

 private:
  const std::shared_ptr<LocalStream> stream_;
  const std::uint64_t number_;
  const std::shared_ptr<const SharedView> view_;
  const std::shared_ptr<std::byte[]> bytes_;
};

LocalStream::LocalStream(UniqueFd socket, bool dialed, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)),
      wake_(opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      dialed_(dialed),
      timeout_(timeout),
      stranger_(!dialed),
      buffer_(kBuffer),
      heard_(Clock::now()) {}

LocalStream::Frame LocalStream::frame(Kind kind, std::uint64_t number) {
  Frame made;
  append(made.head, Head{kMagic, kind, number, 0});
  made.size = made.head.size();
  return made;
}

void LocalStream::Frame::advance(std::size_t bytes) noexcept {
  of_piece += bytes;
  for (; at <= pieces.size(); ++at) {
    const std::size_t whole = at == 0 ? head.size() : pieces[at - 1].size();
    if (of_piece < whole) return;
    of_piece -= whole;
  }
}

void LocalStream::greet() {
  put(frame(Kind::greeting));
}

void LocalStream::share(std::shared_ptr<SharedMemory> memory) {
  Frame announced = frame(Kind::memory);
  announced.memory = memory;
  {
    const MutexLock lock(mutex_);
    memory_ = std::move(memory);
    shares_ = true;
  }
  put(std::move(announced));
}

void LocalStream::send(WireBytes message) {
  if (message.size() > WorkerLink::kMostBytesOfMessage)
    return end("a message of more than 64 MiB was to be sent");
  std::shared_ptr<SharedMemory> memory;
  {
    const MutexLock lock(mutex_);
    if (shares_) memory = memory_;
  }
  std::vector<Part> parts;
  Frame made;
  bool shared = false;
  for (const std::span<const std::byte> piece : message.pieces) {
    const auto offset = memory ? memory->offset_of(piece) : std::nullopt;
    shared = shared || offset;
    if (!offset) made.pieces.push_back(piece);
    if (!offset && !parts.empty() && parts.back().offset == kInline)
      parts.back().bytes += piece.size();
    else
      parts.push_back({piece.size(), offset.value_or(kInline)});
  }
  made.owner = message.owner;
  std::uint64_t number = 0;
  if (shared) {
    const MutexLock lock(mutex_);
    number = next_number_++;
    if (!over_) held_.emplace(number, std::move(message.owner));
  }
  append(made.head, Head{kMagic, Kind::message, number, parts.size()});
  for (const Part& part : parts) append(made.head, part);
  made.size = made.head.size();
  for (const auto& piece : made.pieces) made.size += piece.size();
  put(std::move(made));
}

void LocalStream::put(Frame made) {
  const bool small = made.size <= kSentAtOnce;
  {
    const MutexLock lock(mutex_);
    if (over_) return;
    to_send_.push_back(std::move(made));
  }
  if (small)
    flush();
  else
    wake();
}

// One thread at a time sends, without the lock.
void LocalStream::flush() noexcept {
  {
    const MutexLock lock(mutex_);
    if (sending_ || full_ || to_send_.empty()) return;
    sending_ = true;
  }
  for (;;) {
    Frame* first = nullptr;
    {
      const MutexLock lock(mutex_);
      if (to_send_.empty()) {
        sending_ = false;
        return;
      }
      first = &to_send_.front();
    }
    const bool owned = first->owner != nullptr;
    const bool sent = write_some(*first);
    {
      const MutexLock lock(mutex_);
      if (sent && !owned) {
        to_send_.pop_front();
      } else if (sent) {
        sent_.splice(sent_.end(), to_send_, to_send_.begin());
      } else {
        full_ = true;
        sending_ = false;
      }
    }
    if (owned || !sent) wake();  // the reading thread releases the owner, or waits for room
    if (!sent) return;
  }
}

// Returns false if the socket takes no more.
bool LocalStream::write_some(Frame& made) noexcept {
  constexpr std::size_t kMost = 64;
  while (made.at <= made.pieces.size() && !over_) {
    std::array<iovec, kMost> pieces;
    std::size_t count = 0;
    if (made.at == 0)
      pieces[count++] = {made.head.data() + made.of_piece, made.head.size() - made.of_piece};
    for (std::size_t i = std::max<std::size_t>(made.at, 1); i <= made.pieces.size(); ++i) {
      if (count == kMost) break;
      const auto rest = made.pieces[i - 1].subspan(i == made.at ? made.of_piece : 0);
      pieces[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (made.memory && made.at == 0 && made.of_piece == 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const right = CMSG_FIRSTHDR(&message);
      right->cmsg_level = SOL_SOCKET;
      right->cmsg_type = SCM_RIGHTS;
      right->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = made.memory->fd();
      std::memcpy(CMSG_DATA(right), &fd, sizeof fd);
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      made.advance(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return false;
    return true;  // the reading thread sees that the other side is gone
  }
  return true;
}

void LocalStream::wake() noexcept {
  ::eventfd_write(wake_.get(), 1);
}

void LocalStream::end(const char* why) noexcept {
  const char* none = nullptr;
  if (!over_.exchange(true)) why_.compare_exchange_strong(none, why);
  wake();
}

// Waits until there is something to read. Sends what had to wait. Returns false once the stream is
// over.
bool LocalStream::wait() noexcept {
  while (!over_) {
    flush();
    bool full = false;
    std::list<Frame> sent;
    {
      const MutexLock lock(mutex_);
      full = full_;
      sent.swap(sent_);
    }
    sent.clear();
    const auto now = Clock::now();
    const bool asked = asked_ != Clock::time_point();
    const auto until = (asked ? asked_ : heard_) + timeout_ / 2;
    if (now >= until && asked) {
      end("no sign of life");
      return false;
    }
    if (now >= until) {
      asked_ = now;
      try {
        put(frame(Kind::ping));
      } catch (...) {
        end("no memory for a message");
      }
      continue;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    std::array<pollfd, 2> polled{
        {{socket_.get(), static_cast<short>(full ? POLLIN | POLLOUT : POLLIN), 0},
         {wake_.get(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min<long>(left, 1000)));
    eventfd_t ignored = 0;
    if (polled[1].revents != 0) ::eventfd_read(wake_.get(), &ignored);
    if ((polled[0].revents & POLLOUT) != 0) {
      const MutexLock lock(mutex_);
      full_ = false;
    }
    if ((polled[0].revents & ~POLLOUT) != 0) return true;
  }
  return false;
}

// Receives up to so many bytes. Returns 0 once the stream is over.
std::size_t LocalStream::receive(std::byte* to, std::size_t bytes) {
  while (!over_) {
    iovec place{to, bytes};
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
    if (dialed_) {  // a worker takes no descriptors: without room for them, the kernel closes them
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EAGAIN) {
      if (!wait()) return 0;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      over_ = true;
      return 0;
    }
    for (cmsghdr* right = dialed_ ? CMSG_FIRSTHDR(&message) : nullptr; right != nullptr;
         right = CMSG_NXTHDR(&message, right)) {
      if (right->cmsg_level != SOL_SOCKET || right->cmsg_type != SCM_RIGHTS) continue;
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(right), sizeof fd);
      arrived_ = UniqueFd(fd);
    }
    heard_ = Clock::now();
    asked_ = {};
    return static_cast<std::size_t>(got);
  }
  return 0;
}

// Large parts go straight to their place. Returns false once the stream is over.
bool LocalStream::fill(std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    if (over_) return false;
    if (begin_ == end_ && bytes < buffer_.size()) {
      begin_ = 0;
      end_ = receive(buffer_.data(), buffer_.size());
      if (end_ == 0) return false;
    }
    std::size_t now = std::min(bytes, end_ - begin_);
    if (now > 0) {
      std::memcpy(to, buffer_.data() + begin_, now);
      begin_ += now;
    } else {
      now = receive(to, bytes);
      if (now == 0) return false;
    }
    to += now;
    bytes -= now;
  }
  return true;
}

void LocalStream::read(LinkListener& listener) noexcept {
  try {
    while (take_frame(listener)) {
    }
  } catch (const std::bad_alloc&) {
    end("no memory for what was received");
  } catch (...) {
    end("it sent what is no message");
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  std::list<Frame> unsent, sent;
  std::map<std::uint64_t, std::shared_ptr<const void>> held;
  {
    const MutexLock lock(mutex_);
    over_ = true;
    // The other side may still read what it was given.
    if (memory_) memory_->close();
    if (!sending_) unsent.swap(to_send_);
    sent.swap(sent_);
    held.swap(held_);
  }
}

bool LocalStream::take_frame(LinkListener& listener) {
  Head head{};
  if (!fill(reinterpret_cast<std::byte*>(&head), sizeof head)) return false;
  if (head.magic != kMagic) malformed("what it is");
  switch (head.kind) {
    case Kind::greeting:
      if (dialed_ && !std::exchange(greeted_, true)) listener.connected();
      return true;
    case Kind::message:
      return take_message(head, listener);
    case Kind::memory:
      take_memory();
      return true;
    case Kind::unshared: {
      const MutexLock lock(mutex_);
      shares_ = false;
      return true;
    }
    case Kind::released:
      released(head.number);
      return true;
    case Kind::ping: {
      {
        const MutexLock lock(mutex_);
        if (to_send_.size() > kMostUnsent) malformed("a question of a side that reads nothing");
      }
      put(frame(Kind::pong));
      return true;
    }
    case Kind::pong:
      return true;
  }
  malformed("its kind");
}

void LocalStream::take_memory() {
  if (!arrived_ || view_) malformed("shared memory");
  try {
    view_ = SharedView::open(std::move(arrived_));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    put(frame(Kind::unshared));
  }
}

bool LocalStream::take_message(const Head& head, LinkListener& listener) {
  if (head.parts > kMostParts) malformed("the number of its parts");
  std::vector<Part> parts(head.parts);
  if (!fill(reinterpret_cast<std::byte*>(parts.data()), parts.size() * sizeof(Part))) return false;
  std::uint64_t all = 0;
  std::uint64_t within = 0;
  for (const Part& part : parts) {
    if (part.bytes > WorkerLink::kMostBytesOfMessage) malformed("the size of a part");
    all += part.bytes;
    if (part.offset == kInline) within += part.bytes;
  }
  if (all > WorkerLink::kMostBytesOfMessage) malformed("its size");
  if (stranger_) {
    of_stranger_ += parts.size() * sizeof(Part) + within;
    if (of_stranger_ > kMostOfStranger) malformed("a stranger's");
  }
  const std::shared_ptr<std::byte[]> bytes = std::make_shared_for_overwrite<std::byte[]>(within);
  if (!fill(bytes.get(), within)) return false;
  WireBytes message;
  std::size_t at = 0;
  for (const Part& part : parts) {
    if (part.offset != kInline) {
      if (!view_) malformed("memory that is not shared");
      message.pieces.push_back(view_->at(part.offset, part.bytes));
    } else if (part.bytes > 0) {
      message.pieces.emplace_back(bytes.get() + at, part.bytes);
      at += part.bytes;
    }
  }
  message.owner = bytes;
  if (head.number != 0)
    message.owner = std::make_shared<Reading>(shared_from_this(), head.number, view_, bytes);
  if (over_) return false;
  listener.received(std::move(message));
  heard_ = Clock::now();
  return true;
}

void LocalStream::released(std::uint64_t number) noexcept {
  // Released after the lock. What was sent has owners, too, so that the memory is free right now.
  std::shared_ptr<const void> owner;
  std::list<Frame> sent;
  const MutexLock lock(mutex_);
  sent.swap(sent_);
  const auto found = held_.find(number);
  if (found == held_.end()) return;
  owner = std::move(found->second);
  held_.erase(found);
}

}  // namespace penstock::remote
