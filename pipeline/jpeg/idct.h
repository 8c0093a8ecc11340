// The inverse DCT in plain C++. It is for targets without vectors, for shrunken blocks, and for
// values so large that the library's own vector code overflows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::jpeg {

/// Dequantises and transforms a block (natural order) to `side` x `side` samples: 8, 4, 2 or 1. Its
/// arithmetic, including overflow, is that of libjpeg-turbo's default on x86-64 with AVX2. Source
/// of the transform: Loeffler, Ligtenberg, Moschytz, ICASSP 1989. Source of its fixed point and of
/// the reduced sizes: libjpeg's jidctint and jidctred.
void transform_plainly(const std::int16_t* coefficients, const std::int16_t* quantisation, int side,
                       std::uint8_t* target, std::size_t stride) noexcept;

}  // namespace penstock::jpeg
