// Errors on the wire.
#pragma once

#include <penstock/error.h>

#include "cluster/net/rendezvous.pb.h"

namespace penstock::cluster {

inline wire::Verdict verdict_of(const Status& status) {
  wire::Verdict verdict;
  if (status.ok()) return verdict;
  verdict.set_ended(true);
  verdict.set_code(static_cast<std::uint32_t>(status.error().code()));
  verdict.set_text(status.error().what());
  return verdict;
}

/// Returns the error of a verdict. Unknown codes become ErrorCode::internal.
inline Status status_of(const wire::Verdict& verdict) {
  if (!verdict.ended()) return {};
  const bool known = verdict.code() <= static_cast<std::uint32_t>(ErrorCode::mismatch);
  return {known ? static_cast<ErrorCode>(verdict.code()) : ErrorCode::internal, verdict.text()};
}

}  // namespace penstock::cluster
