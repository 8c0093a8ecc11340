// The part of the byte budget for memory that a codec allocates itself.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock {

/// The second interface of a run's contexts, next to `WorkContext`. An op that decodes into a
/// library's memory, or keeps whole images of its own, asks here before it does so. Belongs to one
/// group; not synchronised.
class CodecBudget {
 public:
  /// Takes `bytes` of the budget. Throws Error{resource_exhausted} if there is no room, now or
  /// ever. If there may be room later, the engine makes the element again by itself.
  virtual void take(std::uint64_t bytes) = 0;
  /// Gives some of them back. Bytes that an op keeps are given back when it ends.
  virtual void give(std::uint64_t bytes) noexcept = 0;

 protected:
  CodecBudget() = default;
  CodecBudget(const CodecBudget&) = default;
  CodecBudget& operator=(const CodecBudget&) = default;
  ~CodecBudget() = default;
};

/// Bytes of a budget, which go back at the end of the scope. Without a budget it counts nothing.
class TakenBytes {
 public:
  explicit TakenBytes(CodecBudget* budget) noexcept : budget_(budget) {}
  TakenBytes(const TakenBytes&) = delete;
  TakenBytes& operator=(const TakenBytes&) = delete;
  ~TakenBytes() { give(bytes_); }

  CodecBudget* budget() const noexcept { return budget_; }
  /// Throws as CodecBudget::take does.
  void take(std::uint64_t bytes) {
    if (budget_ == nullptr) return;
    budget_->take(bytes);
    bytes_ += bytes;
  }
  /// Gives some of them back early.
  void give(std::uint64_t bytes) noexcept {
    bytes = std::min(bytes, bytes_);
    if (bytes == 0) return;
    budget_->give(bytes);
    bytes_ -= bytes;
  }

 private:
  CodecBudget* const budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock
