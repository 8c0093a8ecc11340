// Messages over a Unix socket: what a LocalLink sends and receives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <penstock/internal/posix.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/internal/worker_links.h>

#include "pipeline/remote/shared_memory.h"

namespace penstock::remote {

/// One end of a connected Unix socket. Messages consist of bytes that go through the socket, and of
/// parts of memory that is shared, of which only the place goes through. The receiver says when it
/// has read those. One thread reads; all others may send. The object lives as long as messages that
/// view its memory.
class LocalStream : public std::enable_shared_from_this<LocalStream> {
 public:
  /// Takes over a connected socket that does not block. Throws Error{resource_exhausted}.
  /// `dialed`: this side has connected, and may be given memory.
  LocalStream(UniqueFd socket, bool dialed, std::chrono::milliseconds timeout);
  LocalStream(const LocalStream&) = delete;
  LocalStream& operator=(const LocalStream&) = delete;

  /// Sends what the other side's `greeted` waits for.
  void greet();
  void send(WireBytes message);
  /// Announces memory to the other side. Pieces of later messages may lie there.
  void share(std::shared_ptr<SharedMemory> memory);
  /// Ends the stream, for this reason unless there was another before.
  void end(const char* why) noexcept;
  /// Lifts the limit on what a stranger may send.
  void admit() noexcept { stranger_ = false; }
  /// True until the stream has ended, from whichever side.
  bool open() const noexcept { return !over_; }

  /// Reads until the stream ends. Other threads may not call it.
  void read(LinkListener& listener) noexcept;
  /// Returns why it has ended; null: the other side closed it.
  const char* why() const noexcept { return why_.load(); }
  bool greeted() const noexcept { return greeted_; }

 private:
  enum class Kind : std::uint32_t { greeting, message, memory, unshared, released, ping, pong };
  struct Head {
    std::uint32_t magic;
    Kind kind;
    std::uint64_t number;  // of a message whose parts are shared; 0: none are
    std::uint64_t parts;
  };
  struct Part {
    std::uint64_t bytes;
    std::uint64_t offset;  // kInline: they go through the socket
  };
  struct Frame {
    std::vector<std::byte> head;  // and the list of parts
    std::vector<std::span<const std::byte>> pieces;
    std::shared_ptr<const void> owner;
    std::shared_ptr<SharedMemory> memory;  // whose descriptor goes with it
    std::size_t size = 0;
    // The next part to send, the head (0) or a piece (its number plus one), and its first byte.
    std::size_t at = 0;
    std::size_t of_piece = 0;
    void advance(std::size_t bytes) noexcept;
  };
  class Reading;

  static Frame frame(Kind kind, std::uint64_t number = 0);
  void put(Frame frame);
  void flush() noexcept;
  bool write_some(Frame& frame) noexcept;
  void wake() noexcept;
  bool wait() noexcept;
  bool fill(std::byte* to, std::size_t bytes);
  std::size_t receive(std::byte* to, std::size_t bytes);
  bool take_frame(LinkListener& listener);
  bool take_message(const Head& head, LinkListener& listener);
  void take_memory();
  void released(std::uint64_t number) noexcept;

  const UniqueFd socket_;
  const UniqueFd wake_;
  const bool dialed_;
  const std::chrono::milliseconds timeout_;
  std::atomic<const char*> why_{nullptr};
  std::atomic<bool> over_{false};
  std::atomic<bool> stranger_;

  // Used by the thread that reads.
  bool greeted_ = false;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer was received and not used
  UniqueFd arrived_;                 // a descriptor
  std::shared_ptr<const SharedView> view_;
  std::size_t of_stranger_ = 0;  // bytes
  std::chrono::steady_clock::time_point heard_;
  std::chrono::steady_clock::time_point asked_{};  // for a sign of life; none: not asked

  Mutex mutex_;
  std::list<Frame> to_send_ GUARDED_BY(mutex_);
  // Owners may do anything when they are released, and a sender may hold a lock. So the thread that
  // reads releases them.
  std::list<Frame> sent_ GUARDED_BY(mutex_);
  bool sending_ GUARDED_BY(mutex_) = false;
  bool full_ GUARDED_BY(mutex_) = false;  // the socket takes no more now
  std::shared_ptr<SharedMemory> memory_ GUARDED_BY(mutex_);
  bool shares_ GUARDED_BY(mutex_) = false;
  std::uint64_t next_number_ GUARDED_BY(mutex_) = 1;
  // Messages that are being read.
  std::map<std::uint64_t, std::shared_ptr<const void>> held_ GUARDED_BY(mutex_);
};

}  // namespace penstock::remote
