// Batches with known values, and functions that read them back from a device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include <penstock/element.h>
#include <penstock/staging_area.h>

#include "tests/support/errors.h"

namespace penstock::test {

inline Spec numbers_spec() {
  return Spec({{"x", DType::i64, Shape({-1})}, {"y", DType::f32, Shape({-1, 3})}});
}

/// Returns rows first, first + 1, …: x is the number itself, and y has half of it three times.
inline Element numbers(std::int64_t first, std::int64_t rows) {
  Tensor x = Tensor::allocate(DType::i64, Shape({rows}));
  Tensor y = Tensor::allocate(DType::f32, Shape({rows, 3}));
  for (std::int64_t i = 0; i < rows; ++i) {
    x.mutable_values<std::int64_t>()[static_cast<std::size_t>(i)] = first + i;
    for (std::int64_t k = 0; k < 3; ++k) {
      y.mutable_values<float>()[static_cast<std::size_t>(3 * i + k)] =
          static_cast<float>(first + i) / 2;
    }
  }
  Element element{{"x", std::move(x)}, {"y", std::move(y)}};
  element.valid_rows = rows;
  return element;
}

inline std::string text_of(const std::function<void()>& act) {
  const std::optional<Error> error = thrown_by(act);
  return error ? error->what() : "nothing was thrown";
}
inline std::optional<ErrorCode> code_of(const std::function<void()>& act) {
  const std::optional<Error> error = thrown_by(act);
  return error ? std::optional(error->code()) : std::nullopt;
}

template <typename T>
std::vector<T> read(StreamView stream, const DeviceTensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.shape.volume()));
  stream.copy({values.data(), tensor.data, values.size() * sizeof(T)});
  stream.synchronize();
  return values;
}

inline std::vector<std::string> read_text(StreamView stream, const DeviceTensor& tensor) {
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(tensor.shape.volume()) + 1);
  stream.copy({offsets.data(), tensor.data, offsets.size() * sizeof(std::uint64_t)});
  stream.synchronize();
  std::string text(offsets.back(), '\0');
  stream.copy({text.data(), tensor.text, text.size()});
  stream.synchronize();
  std::vector<std::string> result;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    result.push_back(text.substr(offsets[i], offsets[i + 1] - offsets[i]));
  return result;
}

/// Waits, reads, and compares with `numbers(first, rows)`.
inline void expect_numbers(const StagedBatch& batch, StreamView stream, std::int64_t first,
                           std::int64_t rows) {
  ASSERT_EQ(batch["x"].shape, Shape({rows}));
  ASSERT_EQ(batch["y"].shape, Shape({rows, 3}));
  const auto x = read<std::int64_t>(stream, batch["x"]);
  const auto y = read<float>(stream, batch["y"]);
  for (std::int64_t i = 0; i < rows; ++i) {
    ASSERT_EQ(x[static_cast<std::size_t>(i)], first + i);
    for (std::int64_t k = 0; k < 3; ++k)
      ASSERT_EQ(y[static_cast<std::size_t>(3 * i + k)], static_cast<float>(first + i) / 2);
  }
}

}  // namespace penstock::test
