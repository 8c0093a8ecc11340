// A checker that finds unordered accesses to memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <penstock/device.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// Two accesses that could overlap, whether or not they did in this run.
struct Hazard {
  enum class Kind : std::uint8_t { read_before_ready, overwritten_in_use, freed_in_flight };
  Kind kind = Kind::read_before_ready;
  Site earlier;  ///< where the access was requested that the later one does not wait for
  Site later;    ///< where the later access was requested
  std::string earlier_actor;  ///< the stream or thread of the earlier access
  std::string later_actor;

  /// Returns text such as "read before its ready event: read by stream compute (a.cpp:12), written
  /// by stream copy (b.cpp:34)".
  std::string to_string() const;
};

/// Tracks happens-before with vector clocks: each stream and each host thread is an actor. The
/// checker compares the order in which work was requested, not the times at which it ran. So it
/// finds a missing wait in every schedule. Only `hand_over` and `take_over` order host threads.
/// Thread-safe. Method: Fidge and Mattern, 1988; the test of each access is that of FastTrack
/// (Flanagan, Freund, 2009).
class Checker {
 public:
  using Memory = std::span<const std::byte>;

  int add_stream(std::string name) EXCLUDES(mutex_);
  /// The next work of a stream, requested by the calling thread.
  void access(int stream, Memory memory, bool writes, const Site& site) EXCLUDES(mutex_);
  void host_access(Memory memory, bool writes, const Site& site) EXCLUDES(mutex_);
  void record(int stream, const void* event) EXCLUDES(mutex_);
  void wait(int stream, const void* event) EXCLUDES(mutex_);
  /// The calling thread has learnt that the event, or all work of a stream, is done.
  void saw(const void* event) EXCLUDES(mutex_);
  void saw_stream(int stream) EXCLUDES(mutex_);
  void forget(const void* event) EXCLUDES(mutex_);
  void hand_over(const void* what) EXCLUDES(mutex_);
  void take_over(const void* what) EXCLUDES(mutex_);
  /// The calling thread frees the memory.
  void freed(Memory memory, const Site& site) EXCLUDES(mutex_);
  std::vector<Hazard> hazards() const EXCLUDES(mutex_);

 private:
  using Times = std::vector<std::uint64_t>;
  struct Access {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    int actor = 0;
    std::uint64_t time = 0;
    bool writes = false;
    Site site;
  };
  static void join(Times& into, const Times& from);
  static bool before(const Access& access, const Times& now) {
    const auto actor = static_cast<std::size_t>(access.actor);
    return actor < now.size() && now[actor] >= access.time;
  }
  int add_actor(std::string name) REQUIRES(mutex_);
  int host() REQUIRES(mutex_);
  /// Advances the actor's clock by one and returns it.
  Times& tick(int actor) REQUIRES(mutex_);
  void check(int actor, Memory memory, bool writes, const Site& site) REQUIRES(mutex_);
  void report(Hazard::Kind kind, const Access& earlier, int actor, const Site& site)
      REQUIRES(mutex_);

  static constexpr std::size_t kMostHazards = 100;
  mutable Mutex mutex_;
  std::vector<std::string> names_ GUARDED_BY(mutex_);
  std::vector<Times> times_ GUARDED_BY(mutex_);  // one for each actor
  std::map<std::uint64_t, int> threads_ GUARDED_BY(mutex_);
  std::map<const void*, Times> events_ GUARDED_BY(mutex_);
  std::map<const void*, Times> handed_ GUARDED_BY(mutex_);
  std::vector<Access> accesses_ GUARDED_BY(mutex_);
  std::vector<Hazard> hazards_ GUARDED_BY(mutex_);
};

}  // namespace penstock
