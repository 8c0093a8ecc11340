// The part of the byte budget for memory that a codec allocates itself.
#pragma once

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

}  // namespace penstock
