// Finds slow work under a mutex. In debug and sanitized builds (PENSTOCK_LOCK_CHECKS), each thread
// knows which mutexes it holds. In other builds nothing of this is left.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace penstock {

#if defined(PENSTOCK_LOCK_CHECKS)
inline constexpr bool kLockChecks = true;
#else
inline constexpr bool kLockChecks = false;
#endif

/// A line of code: where `current` is called, or the function of which it is a default argument.
struct CodePlace {
  const char* file;
  unsigned line;
  static constexpr CodePlace current(const char* file = __builtin_FILE(),
                                     unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// The mutexes that this thread holds and may not hold for long. Each is added when it is locked.
class HeldMutexes {
 public:
  static void add(const void* mutex, const CodePlace& locked_at) noexcept {
    if constexpr (kLockChecks) {
      if (count_ < held_.size()) held_[count_] = {mutex, locked_at};
      ++count_;
    }
  }
  static void remove(const void* mutex) noexcept {
    if constexpr (kLockChecks) {
      const auto end = held_.begin() + std::min(count_, held_.size());
      const auto found = std::find_if(held_.begin(), end,
                                      [mutex](const Held& held) { return held.mutex == mutex; });
      if (found != end) std::move(found + 1, end, found);
      --count_;
    }
  }
  /// Ends the process if there are any but `allowed`.
  static void expect_none(const char* work, const void* allowed = nullptr) noexcept {
    if constexpr (kLockChecks) {
      if (count_ == 0 || (count_ == 1 && held_[0].mutex == allowed)) return;
      const Held& held = held_[held_[0].mutex == allowed ? 1 : 0];
      std::fprintf(stderr, "penstock: %s while the mutex locked at %s:%u is held\n", work,
                   held.locked_at.file, held.locked_at.line);
      std::abort();
    }
  }

 private:
  struct Held {
    const void* mutex;
    CodePlace locked_at;
  };
  static inline thread_local std::array<Held, 8> held_{};  // the outermost ones
  static inline thread_local std::size_t count_ = 0;
};

/// Says that slow work follows, for which the thread may hold no Mutex (thread_annotations.h).
/// `work` is what happens: "a file is read". Ends the process of a checked build if one is held.
inline void slow_work(const char* work) noexcept {
  HeldMutexes::expect_none(work);
}

}  // namespace penstock
