// Batches of elements, as towers receive them.
#pragma once

#include <cstdint>

#include <penstock/dataset.h>

namespace penstock::towers {

/// True if an element has a component of unknown length, so that batches of such elements are
/// ragged.
bool is_ragged(const Spec& element);
/// Returns batches of `rows` elements, made by `ragged_batch` if they are ragged.
Dataset batch_rows(const Dataset& elements, std::int64_t rows);

}  // namespace penstock::towers
