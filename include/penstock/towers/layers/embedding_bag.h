// Rows of a table, averaged.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The mean of the rows of a table that each sample names. Takes ids as i64 [n,most]; negative ids
/// are padding. A sample without ids gives zeros. Not a Layer, because it takes ids. Variable:
/// table [rows,width], of which a step reads only some rows (`by_rows`).
class EmbeddingBag {
 public:
  /// Makes a table of `rows` rows of `width` values.
  EmbeddingBag(const Scope& scope, std::int64_t rows, std::int64_t width,
               const Initializer& initializer);
  /// Returns the means. Throws Error{invalid_argument} naming the sample whose id the table does
  /// not have. On a GPU, Gpu::result reports this error instead.
  const Array& forward(std::span<const std::int64_t> ids, std::int64_t samples);
  /// Adds to the table's gradient. The ids of the last `forward` must still be valid.
  void backward(const Array& gradient);

 private:
  std::int64_t named(std::int64_t sample) const;
  void read_rows();

  const std::string name_;
  Gpu* const gpu_;
  Variable& table_;
  std::span<const std::int64_t> ids_;
  std::vector<std::int64_t> host_ids_;  // copy for a tower on a GPU
  std::int64_t most_ = 0;
  Array out_, rows_;
};

}  // namespace penstock::towers
