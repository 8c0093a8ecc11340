// Where the coefficients of a scan end, and stray bytes begin.
#pragma once

#include <cstddef>
#include <span>

namespace penstock::jpeg {

/// Returns false if bytes left over behind a scan, or behind an interval of it, look like damaged
/// coefficients. An encoder fills the last byte with ones. A decoder that lost its way ends
/// anywhere, and in about one of three cases in front of ones, which goes unseen. Returns true for
/// files whose scans our decoder does not read. Source: ITU T.81, F.1.2.3.
bool is_padded(std::span<const std::byte> file);

}  // namespace penstock::jpeg
