// Work that is done again to get back to where a run had been.
#pragma once

#include <utility>

namespace penstock {

/// While one lives, bad elements that this thread passes over are not counted: the run that saved
/// its position has counted them.
class Redoing {
 public:
  Redoing() noexcept : outer_(std::exchange(now_, true)) {}
  Redoing(const Redoing&) = delete;
  Redoing& operator=(const Redoing&) = delete;
  ~Redoing() { now_ = outer_; }

  static bool now() noexcept { return now_; }

 private:
  static inline thread_local bool now_ = false;
  const bool outer_;
};

}  // namespace penstock
