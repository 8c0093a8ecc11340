#include "bench/identity.h"

namespace penstock::bench {

Element identity(Element element) {
  return element;
}

void identities(const Element& in, Element& out) {
  in["value"].copy_to(out["value"].mutable_data());
}

}  // namespace penstock::bench
