// Spans of time for a trace: what was done, when, and on which thread or device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// A recorder of spans of time on tracks: a track for each thread, and tracks for the work of
/// towers' devices. Before `begin` nothing is recorded, and each span costs one load. At most
/// `most` spans are kept. Once there are more, the recorder drops every second group (or batch of a
/// tower) with all its spans, and also every second one to come. So the trace of a long run keeps
/// its size and is evenly sampled. If there is no memory for a span, it is left out. Thread-safe.
class Spans {
 public:
  enum class Kind : std::uint8_t { group, read, op, copy, step };
  struct Span {
    Kind kind = Kind::group;
    std::uint32_t name = 0;   ///< an index into `names`
    std::uint32_t track = 0;  ///< an index into `tracks`
    std::uint64_t sample = 0;
    std::int64_t begin_ns = 0;  ///< on the steady clock
    std::int64_t end_ns = 0;
    std::uint64_t items = 0;
  };
  struct Trace {
    std::vector<Span> spans;
    std::vector<std::string> names;
    std::vector<std::string> tracks;
    std::int64_t start_ns = 0;
    std::uint64_t one_of = 1;  ///< one of this many groups or batches is kept
  };

  static Spans& of_process() noexcept;

  void begin(std::size_t most = 1 << 16) noexcept EXCLUDES(mutex_);
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// Records a span on this thread. It belongs to the group that the thread is processing, if any.
  void note(Kind kind, std::string_view name, std::int64_t begin_ns, std::int64_t end_ns,
            std::uint64_t items) noexcept EXCLUDES(mutex_);
  /// Records a span from `begin` until now, if recording is on.
  static void note_since(Kind kind, std::string_view name,
                         std::chrono::steady_clock::time_point begin,
                         std::uint64_t items) noexcept {
    if (of_process().on()) of_process().note_until_now(kind, name, begin, items);
  }
  /// Records a span of a tower. `sample` is the number of its batch.
  void note_on(const std::string& track, Kind kind, std::string_view name, std::uint64_t sample,
               std::int64_t begin_ns, std::int64_t end_ns, std::uint64_t items) noexcept
      EXCLUDES(mutex_);
  Trace taken() const EXCLUDES(mutex_);

 private:
  friend class GroupSpan;

  void note_until_now(Kind kind, std::string_view name, std::chrono::steady_clock::time_point begin,
                      std::uint64_t items) noexcept;
  bool wanted(std::uint64_t sample) const noexcept {
    return sample % one_of_.load(std::memory_order_relaxed) == 0;
  }
  void add(Span span) REQUIRES(mutex_);
  std::uint32_t name_of(std::string_view name) REQUIRES(mutex_);
  std::uint32_t track_of(const std::string& track) REQUIRES(mutex_);
  std::uint32_t track_of_thread(Kind first) REQUIRES(mutex_);

  std::atomic<bool> on_{false};
  std::atomic<std::uint64_t> one_of_{1};
  std::atomic<std::uint64_t> groups_{0};
  mutable Mutex mutex_;
  std::size_t most_ GUARDED_BY(mutex_) = 0;
  Trace trace_ GUARDED_BY(mutex_);
  std::map<std::string, std::uint32_t, std::less<>> names_ GUARDED_BY(mutex_);
  std::map<std::string, std::uint32_t> tracks_ GUARDED_BY(mutex_);
  std::map<int, std::uint32_t> threads_ GUARDED_BY(mutex_);
};

/// A guard: this thread processes a group until it is destroyed. A group inside another is part of
/// it.
class GroupSpan {
 public:
  GroupSpan(Spans::Kind kind, std::string_view name, std::uint64_t items) noexcept;
  ~GroupSpan();
  GroupSpan(const GroupSpan&) = delete;
  GroupSpan& operator=(const GroupSpan&) = delete;

 private:
  const Spans::Kind kind_;
  const std::string_view name_;
  const std::uint64_t items_;
  std::int64_t begin_ns_ = 0;  // 0: nothing is recorded
  bool outermost_ = false;
};

}  // namespace penstock
