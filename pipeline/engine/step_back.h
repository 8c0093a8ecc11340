// Lets a run continue with fewer batches at once, because a codec needs the room.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

class Run;

/// Handles batches that were begun ahead and cannot be given up like single values. If they alone
/// block a codec, the consumer takes everything down. It then opens the epoch again at its
/// position, with fewer batches at once. Thread-safe.
class StepBack {
 public:
  explicit StepBack(Run& run) : run_(run) {}
  /// States that the consumer can save its position and resume from there. Call this before
  /// anything is opened.
  void allow() noexcept { allowed_ = true; }
  /// Called for a codec that finds no room for `bytes`. Keeps that much room for codecs and asks
  /// the consumer to step back. Returns false if that would not help.
  bool ask(std::uint64_t bytes) noexcept;
  /// True if the calling thread is the consumer's own and has to step back.
  bool wanted() const noexcept;
  /// The consumer steps back now and has taken everything down. Forgets the errors of this epoch,
  /// as they will be counted again.
  void done() noexcept;

 private:
  Run& run_;
  bool allowed_ = false;  // constant once a tree was opened
  std::atomic<bool> wanted_{false};
};

}  // namespace penstock
