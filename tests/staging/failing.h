// Datasets with failing elements.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <penstock/penstock.h>

namespace penstock::test {

inline const std::vector<ErrorCode> kAllCodes = {
    ErrorCode::invalid_argument, ErrorCode::not_found,   ErrorCode::data_loss,
    ErrorCode::out_of_range,     ErrorCode::unavailable, ErrorCode::resource_exhausted,
    ErrorCode::cancelled,        ErrorCode::user,        ErrorCode::internal,
    ErrorCode::device_lost,      ErrorCode::no_progress, ErrorCode::mismatch};

/// Returns the numbers below n, some of which fail.
inline Dataset failing(std::int64_t n, std::set<std::int64_t> bad, ErrorCode code) {
  return range(n).map([bad = std::move(bad), code](const Element& in) {
    const std::int64_t number = in[0].item<std::int64_t>();
    if (bad.contains(number)) throw Error(code, "number " + std::to_string(number) + " is bad");
    return in;
  });
}

}  // namespace penstock::test
