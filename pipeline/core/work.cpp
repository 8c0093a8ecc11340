#include <penstock/work.h>

namespace penstock {

std::size_t WorkOp::run_columns(const Element& /*in*/, Element& /*out*/, WorkItem& /*odd*/) const {
  throw Error(ErrorCode::internal, "'" + name() + "' takes no columns");
}

}  // namespace penstock
