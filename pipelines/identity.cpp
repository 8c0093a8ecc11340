#include "pipelines/identity.h"

#include <utility>

namespace penstock::tool {

Element identity(Element element) {
  return element;
}

}  // namespace penstock::tool
