#include "towers/gpu/carrier.h"

namespace penstock::towers {

Carrier::Carrier(Gpu& from, Gpu& to)
    : from_(from), to_(to), made_(from.device()), copied_(to.device()) {
  from.device()->enable_peer(*to.device());
  to.device()->enable_peer(*from.device());
}

const Array& Carrier::carry(const Array& what) {
  if (landed_.dtype() != what.dtype() || landed_.bytes() == nullptr)
    landed_ = to_.array(what.dtype());
  landed_.resize(what.shape());
  from_.stream().record(made_);
  to_.stream().wait(made_);
  to_.stream().copy({landed_.bytes(), what.bytes(), what.nbytes()});
  to_.stream().record(copied_);
  from_.stream().wait(copied_);
  return landed_;
}

}  // namespace penstock::towers
