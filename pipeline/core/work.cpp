#include <penstock/work.h>

namespace penstock {

Status WorkContext::cancelled_status() {
  return Status(ErrorCode::cancelled, "the run was cancelled");
}

std::size_t WorkOp::run_columns(const Element& /*in*/, Element& /*out*/, WorkItem& /*odd*/,
                                const WorkContext& /*context*/) const {
  throw Error(ErrorCode::internal, "'" + name() + "' takes no columns");
}

}  // namespace penstock
