// The same steps as the kernels, run by the calling thread.
#pragma once

#include "staging/reconstruct/image.h"

namespace penstock::reconstruct {

/// Runs all steps of a batch, one after the other, as the kernels do. Without an output, it only
/// decodes the scans.
inline void run_here(const reconstruct::Batch& batch) {
  ExpandScratch scratch{};
  DecodedScratch decoded{};
  EntropyScratch entropy{};
  for (std::int64_t i = 0; i < batch.count; ++i) {
    lay_out(batch, i);
    if (batch.jpegs != 0) decode_entropy(Alone(), batch, i, entropy);
    if (batch.out == nullptr) continue;
    const Image image = image_of(batch, i);
    if (image.wanted()) {
      for (std::int64_t k = 0; k < sample_count(image); ++k) weigh_sample(image, k);
      for (std::int32_t part = 0; part < image.layout->part_count; ++part) {
        if (image.plan->kind == jpeg::PlanKind::jpeg) {
          transform_decoded(Alone(), image, part, decoded);
        } else {
          transform(Alone(), image, part, scratch);
        }
      }
      if (image.plan->resized != 0)
        for (std::int32_t y = 0; y < image.layout->region.height; ++y)
          for (std::int32_t x = 0; x < image.plan->window.width; ++x) mix_columns(image, y, x);
    }
    for (std::int32_t y = 0; y < batch.height; ++y)
      for (std::int32_t x = 0; x < batch.width; ++x) finish_pixel(batch, i, y, x);
  }
}

}  // namespace penstock::reconstruct
