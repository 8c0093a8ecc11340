// Memory that an input worker writes and a run of the same machine reads.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/internal/posix.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// A file in memory (memfd) from which this process allocates. Thread-safe.
class SharedMemory : public std::enable_shared_from_this<SharedMemory> {
 public:
  /// Returns memory of so many bytes, which the system provides as they are used. Null if the
  /// system has none to give, or limits files or addresses (RLIMIT_FSIZE, RLIMIT_AS).
  static std::shared_ptr<SharedMemory> make(std::size_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  int fd() const noexcept { return fd_.get(); }
  std::size_t size() const noexcept { return size_; }
  /// Returns a part that nothing else uses; null if there is no room. The buffer keeps this object.
  /// Throws std::bad_alloc.
  BufferPtr allocate(std::size_t bytes);
  /// Gives nothing out any more: what was given may still be read by the other process.
  void close() noexcept;
  /// Returns where these bytes lie in the memory; nothing if they lie elsewhere.
  std::optional<std::size_t> offset_of(std::span<const std::byte> bytes) const noexcept;

 private:
  class Part;
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  SharedMemory(UniqueFd fd, std::byte* data, std::size_t size);
  void give(Range range) noexcept;

  const UniqueFd fd_;
  std::byte* const data_;
  const std::size_t size_;
  Mutex mutex_;
  // In order, with room for one more than there are parts.
  std::vector<Range> free_ GUARDED_BY(mutex_);
  std::size_t parts_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

/// Such memory of another process, to read. Thread-safe.
class SharedView {
 public:
  /// Maps a file that the other process can't shrink. Throws Error{data_loss} for any other file,
  /// and Error{resource_exhausted} if there are no addresses for it.
  static std::shared_ptr<const SharedView> open(UniqueFd fd);
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;
  ~SharedView();

  /// Returns a part. Throws Error{data_loss} if it is not within the memory.
  std::span<const std::byte> at(std::size_t offset, std::size_t bytes) const;

 private:
  SharedView(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* const data_;
  const std::size_t size_;
};

}  // namespace penstock
