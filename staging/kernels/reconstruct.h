// The kernels that make images of packed records and JPEGs, from the steps in
// staging/reconstruct/image.h. In all but the first, blockIdx.y is the image, whose layout says how
// much work there is.
#pragma once

#include <cstdint>

#include "staging/kernels/launch.h"
#include "staging/reconstruct/image.h"

namespace penstock::kernels {

/// The threads of a block, as a team. `each` returns when all threads have done their share.
struct Block {
  template <typename Do>
  PENSTOCK_BOTH void each(int count, const Do& work) const {
#if defined(__CUDA_ARCH__) || defined(PENSTOCK_EMULATED)
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
      work(i);
    __syncthreads();
#else
    static_cast<void>(count);
    static_cast<void>(work);
#endif
  }
  template <typename Do>
  PENSTOCK_BOTH bool any(int count, const Do& work) const {
#if defined(__CUDA_ARCH__) || defined(PENSTOCK_EMULATED)
    bool found = false;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
      found = work(i) || found;
    return __syncthreads_or(found ? 1 : 0) != 0;
#else
    static_cast<void>(count);
    static_cast<void>(work);
    return false;
#endif
  }
};

struct LayOutBody {
  static constexpr unsigned kThreads = 256;
  reconstruct::Batch batch;

  PENSTOCK_DEVICE void operator()() const {
    const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (i < batch.count) reconstruct::lay_out(batch, i);
  }
};

/// A kernel over the images from `first` on.
struct ImagesBody {
  reconstruct::Batch batch;
  std::int64_t first;

  PENSTOCK_DEVICE reconstruct::Image image() const {
    return reconstruct::image_of(batch, first + blockIdx.y);
  }
};

struct EntropyBody : ImagesBody {
  /// A photograph of 500 x 375 pixels has about 400 chunks.
  static constexpr unsigned kThreads = 256;
  using Shared = reconstruct::EntropyScratch;

  PENSTOCK_DEVICE void operator()(Shared& scratch) const {
    reconstruct::decode_entropy(Block(), batch, first + blockIdx.y, scratch);
  }
};

struct WeighBody : ImagesBody {
  static constexpr unsigned kThreads = 256;

  PENSTOCK_DEVICE void operator()() const {
    const reconstruct::Image image = this->image();
    if (!image.wanted()) return;
    const std::int64_t count = reconstruct::sample_count(image);
    const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
    for (std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += step)
      reconstruct::weigh_sample(image, k);
  }
};

/// A kernel over the parts of images of one kind.
template <typename Scratch>
struct PartsBody : ImagesBody {
  /// Whole warps, so that the rows and columns of a team's blocks each get a thread in turn.
  static constexpr unsigned kThreads = 64;
  using Shared = Scratch;

  template <typename Do>
  PENSTOCK_DEVICE void each_part(jpeg::PlanKind kind, const Do& work) const {
    const reconstruct::Image image = this->image();
    if (!image.wanted(kind)) return;
    const std::int32_t count = image.layout->part_count;
    for (auto part = static_cast<std::int32_t>(blockIdx.x); part < count;
         part += static_cast<std::int32_t>(gridDim.x))
      work(image, part);
  }
};

struct TransformBody : PartsBody<reconstruct::ExpandScratch> {
  PENSTOCK_DEVICE void operator()(Shared& scratch) const {
    each_part(jpeg::PlanKind::coefficients,
              [&](const reconstruct::Image& image, std::int32_t part) {
                reconstruct::transform(Block(), image, part, scratch);
              });
  }
};

/// It is a kernel of its own, so that the other one needs no more registers.
struct TransformDecodedBody : PartsBody<reconstruct::DecodedScratch> {
  PENSTOCK_DEVICE void operator()(Shared& scratch) const {
    each_part(jpeg::PlanKind::jpeg, [&](const reconstruct::Image& image, std::int32_t part) {
      reconstruct::transform_decoded(Block(), image, part, scratch);
    });
  }
};

/// The threads along a row, chosen so that no division is needed.
inline constexpr int kPixelLanes = 32;

struct MixBody : ImagesBody {
  static constexpr unsigned kThreads = 256;

  PENSTOCK_DEVICE void operator()() const {
    const reconstruct::Image image = this->image();
    if (!image.wanted() || image.plan->resized == 0) return;
    const auto step = static_cast<std::int32_t>(gridDim.x * (kThreads / kPixelLanes));
    for (auto y = static_cast<std::int32_t>(blockIdx.x * (kThreads / kPixelLanes) +
                                            threadIdx.x / kPixelLanes);
         y < image.layout->region.height; y += step) {
      for (auto x = static_cast<std::int32_t>(threadIdx.x % kPixelLanes);
           x < image.plan->window.width; x += kPixelLanes)
        reconstruct::mix_columns(image, y, x);
    }
  }
};

struct FinishPixelsBody : ImagesBody {
  static constexpr unsigned kThreads = 256;

  PENSTOCK_DEVICE void operator()() const {
    const auto step = static_cast<std::int32_t>(gridDim.x * (kThreads / kPixelLanes));
    for (auto y = static_cast<std::int32_t>(blockIdx.x * (kThreads / kPixelLanes) +
                                            threadIdx.x / kPixelLanes);
         y < batch.height; y += step) {
      for (auto x = static_cast<std::int32_t>(threadIdx.x % kPixelLanes); x < batch.width;
           x += kPixelLanes)
        reconstruct::finish_pixel(batch, first + blockIdx.y, y, x);
    }
  }
};

/// Launches the kernels that decode the scans of JPEGs.
template <typename Launch>
void decode_scans(const reconstruct::Batch& batch, const Launch& launch) {
  launch(LayOutBody{batch},
         Grid{.x = blocks(both::divide_up<std::int64_t>(batch.count, LayOutBody::kThreads),
                          std::int64_t{1} << 30)});
  if (batch.jpegs == 0) return;
  for (std::int64_t first = 0; first < batch.count; first += kMostY)
    launch(EntropyBody{{batch, first}}, Grid{.y = blocks(batch.count - first, kMostY)});
}

/// Launches all kernels, one after the other.
template <typename Launch>
void reconstruct_batch(const reconstruct::Batch& batch, const Launch& launch) {
  decode_scans(batch, launch);
  // Enough blocks for a photograph. For larger images, each block does more.
  constexpr unsigned kMany = 128;
  constexpr int kRows = FinishPixelsBody::kThreads / kPixelLanes;
  for (std::int64_t first = 0; first < batch.count; first += kMostY) {
    const ImagesBody images{batch, first};
    const unsigned count = blocks(batch.count - first, kMostY);
    launch(WeighBody{images}, Grid{.x = 2, .y = count});
    launch(TransformBody{{images}}, Grid{.x = kMany, .y = count});
    if (batch.jpegs != 0) launch(TransformDecodedBody{{images}}, Grid{.x = kMany, .y = count});
    launch(MixBody{images}, Grid{.x = kMany, .y = count});
    launch(FinishPixelsBody{images},
           Grid{.x = blocks(both::divide_up<std::int64_t>(batch.height, kRows), 1024), .y = count});
  }
}

}  // namespace penstock::kernels
