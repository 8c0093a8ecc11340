// Rows of a table, averaged.
#pragma once

#include <cstdint>
#include <span>

#include "towers/layer.h"

namespace penstock::towers {

/// The mean of the table's rows that each sample names: ids i64 [n,most], where ids below 0 are
/// none; a sample without ids is zeros. Not a Layer, because it takes ids. Variable: table
/// [rows,width].
class EmbeddingBag {
 public:
  EmbeddingBag(const Scope& scope, std::int64_t rows, std::int64_t width,
               const Initializer& initializer);
  /// Throws Error{invalid_argument} naming the sample of an id that the table does not have.
  /// On a GPU that shows in Gpu::result.
  const Array& forward(std::span<const std::int64_t> ids, std::int64_t samples);
  /// Adds to the table's gradient. The ids of the last `forward` must still be there.
  void backward(const Array& gradient);

 private:
  std::int64_t named(std::int64_t sample) const;

  const std::string name_;
  Gpu* const gpu_;
  Variable& table_;
  std::span<const std::int64_t> ids_;
  std::int64_t most_ = 0;
  Array out_, rows_;
};

}  // namespace penstock::towers
