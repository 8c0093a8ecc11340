// Elements with rows of any length.
#pragma once

#include "tests/support/vectors.h"

namespace penstock::test {

inline Tensor vector_of(const std::vector<std::int64_t>& values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

/// Returns vectors whose lengths are unknown until they are made.
inline Dataset ragged(std::vector<std::vector<std::int64_t>> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  return numbers(count).map(
      [rows = std::move(rows)](Element element) {
        return Element({{"x", vector_of(rows[static_cast<std::size_t>(x_of(element))])}});
      },
      {.name = "ragged", .output = Spec({{"x", DType::i64, {Shape::kUnknown}}})});
}

/// Returns x repeated x times, for each x.
inline Dataset runs_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::vector<std::int64_t>> rows;
  for (const std::int64_t n : lengths) rows.emplace_back(static_cast<std::size_t>(n), n);
  return ragged(rows);
}

}  // namespace penstock::test
