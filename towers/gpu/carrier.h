// The way from one GPU to another.
#pragma once

#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// Copies what one GPU made to another one, on the latter's stream, where it is kept until the next
/// copy. Events order that behind what made it and in front of what changes it; the host waits for
/// nothing. Peers copy directly where they can, else through the host. Used by one thread.
class Carrier {
 public:
  /// Both must outlive it.
  Carrier(Gpu& from, Gpu& to);
  const Array& carry(const Array& what);

 private:
  Gpu& from_;
  Gpu& to_;
  const Event made_, copied_;
  Array landed_;
};

}  // namespace penstock::towers
