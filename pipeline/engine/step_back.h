// A run that takes fewer batches at once, because a codec needs the room.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

class Run;

/// Batches that were begun ahead can't be given up like single values. Where they alone are in a
/// codec's way, the consumer takes everything down and opens the epoch again where it stands, with
/// fewer batches at once. Thread-safe.
class StepBack {
 public:
  explicit StepBack(Run& run) : run_(run) {}
  /// Says, before anything is opened, that the consumer can save its position and go on from there.
  void allow() noexcept { allowed_ = true; }
  /// For a codec that finds no room for so many bytes: keeps room for such, and has the consumer
  /// step back. False if that would gain nothing.
  bool ask(std::uint64_t bytes) noexcept;
  /// True for the consumer's own thread, if it is to do so…
  bool wanted() const noexcept;
  /// …which it now does: everything is taken down. What was charged comes again.
  void done() noexcept;

 private:
  Run& run_;
  bool allowed_ = false;  // constant once something was opened
  std::atomic<bool> wanted_{false};
};

}  // namespace penstock
