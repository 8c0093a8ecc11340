// Room in the byte budget for memory that a codec takes itself.
#pragma once

#include <cstdint>

namespace penstock {

/// What contexts of a run are beside what `WorkContext` says: who decodes into memory of a
/// library's, or keeps whole images of its own, says so before it does. Of one group; not
/// synchronised.
class CodecBudget {
 public:
  /// Takes `bytes` of the budget. Throws Error{resource_exhausted}: there is no room, now or ever;
  /// where there may be some later, the element is then made again by itself.
  virtual void take(std::uint64_t bytes) = 0;
  /// Gives some of them back. What is not given back when the op returns comes back then.
  virtual void give(std::uint64_t bytes) noexcept = 0;

 protected:
  CodecBudget() = default;
  CodecBudget(const CodecBudget&) = default;
  CodecBudget& operator=(const CodecBudget&) = default;
  ~CodecBudget() = default;
};

}  // namespace penstock
