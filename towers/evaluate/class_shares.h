// Conversion of logits to probabilities.
#pragma once

#include <penstock/towers/array.h>

namespace penstock::towers {

/// Returns the softmax of each row of logits, f32 [rows,classes] in host memory.
Array shares_of(const Array& logits);

}  // namespace penstock::towers
