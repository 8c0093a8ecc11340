// The kernels' twin: the same steps, by the calling thread.
#pragma once

#include "staging/reconstruct/image.h"

namespace penstock::reconstruct {

/// All steps of a batch, one after the other: the twin of the kernels.
inline void run_here(const reconstruct::Batch& batch) {
  ExpandScratch scratch{};
  for (std::int64_t i = 0; i < batch.count; ++i) {
    lay_out(batch, i);
    const Image image = image_of(batch, i);
    if (image.wanted()) {
      for (std::int64_t k = 0; k < sample_count(image); ++k) weigh_sample(image, k);
      for (std::int32_t part = 0; part < image.layout->part_count; ++part)
        transform(Alone(), image, part, scratch);
      for (std::int64_t k = 0; k < mixed_count(image); ++k) mix_columns(image, k);
    }
    for (std::int64_t k = 0; k < std::int64_t{batch.height} * batch.width; ++k)
      finish_pixel(batch, i, k);
  }
}

}  // namespace penstock::reconstruct
