// Copies from one GPU to another.
#pragma once

#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// A copier of arrays from one GPU to another, on the stream of the latter. A copy stays valid
/// until the next one. Events order the copy after the work that made the array, and before work
/// that changes it; the host never waits. GPUs that can reach each other copy directly, others
/// through the host. Used by one thread.
class Carrier {
 public:
  /// Both GPUs must outlive it.
  Carrier(Gpu& from, Gpu& to);
  const Array& carry(const Array& what);

 private:
  Gpu& from_;
  Gpu& to_;
  const Event made_, copied_;
  Array landed_;
};

}  // namespace penstock::towers
