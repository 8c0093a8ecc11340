#include "pipeline/stage/run_services.h"

namespace penstock {

void RunServices::check_stop() const {
  if (stopping()) throw Error(ErrorCode::cancelled, "the run was cancelled");
}

}  // namespace penstock
