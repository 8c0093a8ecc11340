#include "bench/identity.h"

namespace penstock::bench {

Element identity(Element element) {
  return element;
}

}  // namespace penstock::bench
