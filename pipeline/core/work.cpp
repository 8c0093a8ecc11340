#include <penstock/work.h>

namespace penstock {

void WorkOp::run_columns(const Element& /*in*/, Element& /*out*/) const {
  throw Error(ErrorCode::internal, "'" + name() + "' takes no columns");
}

}  // namespace penstock
