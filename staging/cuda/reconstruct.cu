#include "staging/cuda/kernels.h"

namespace penstock::cuda {
namespace {

using reconstruct::Batch;
using reconstruct::ExpandScratch;
using reconstruct::Image;

constexpr unsigned kThreads = 256;
/// Of a team: whole warps, so that each of its blocks' rows and columns has a thread in turn.
constexpr unsigned kTeam = 64;

__global__ void lay_out_kernel(const Batch batch) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < batch.count) reconstruct::lay_out(batch, i);
}

// Of all others blockIdx.y is the image: its layout says how much there is to do.

__global__ void weigh_kernel(const Batch batch, std::int64_t first) {
  const Image image = reconstruct::image_of(batch, first + blockIdx.y);
  if (!image.wanted()) return;
  const std::int64_t count = reconstruct::sample_count(image);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += step)
    reconstruct::weigh_sample(image, k);
}

__global__ void transform_kernel(const Batch batch, std::int64_t first) {
  __shared__ ExpandScratch scratch;
  const Image image = reconstruct::image_of(batch, first + blockIdx.y);
  if (!image.wanted()) return;
  const std::int32_t count = image.layout->part_count;
  for (std::int32_t part = static_cast<std::int32_t>(blockIdx.x); part < count;
       part += static_cast<std::int32_t>(gridDim.x))
    reconstruct::transform(reconstruct::Block(), image, part, scratch);
}

__global__ void mix_kernel(const Batch batch, std::int64_t first) {
  const Image image = reconstruct::image_of(batch, first + blockIdx.y);
  if (!image.wanted()) return;
  const std::int64_t count = reconstruct::mixed_count(image);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += step)
    reconstruct::mix_columns(image, k);
}

__global__ void finish_pixels_kernel(const Batch batch, std::int64_t first) {
  const std::int64_t count = std::int64_t{batch.height} * batch.width;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += step)
    reconstruct::finish_pixel(batch, first + blockIdx.y, k);
}

unsigned blocks_for(std::int64_t threads, unsigned most) {
  const std::int64_t wanted = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

}  // namespace

cudaError_t load_reconstruction() {
  cudaFuncAttributes attributes;
  for (const void* kernel :
       {reinterpret_cast<const void*>(lay_out_kernel), reinterpret_cast<const void*>(weigh_kernel),
        reinterpret_cast<const void*>(transform_kernel), reinterpret_cast<const void*>(mix_kernel),
        reinterpret_cast<const void*>(finish_pixels_kernel)}) {
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t reconstruct_batch(const Batch& batch, cudaStream_t stream) {
  lay_out_kernel<<<blocks_for(batch.count, 1U << 30), kThreads, 0, stream>>>(batch);
  // What the grid's second dimension may have.
  constexpr std::int64_t kMostImages = 65535;
  // Enough for a photograph; of what is larger each block does more.
  constexpr unsigned kParts = 128;
  constexpr unsigned kMixed = 128;
  const std::int64_t pixels = std::int64_t{batch.height} * batch.width;
  for (std::int64_t first = 0; first < batch.count; first += kMostImages) {
    const std::int64_t rest = batch.count - first;
    const auto images = static_cast<unsigned>(rest < kMostImages ? rest : kMostImages);
    weigh_kernel<<<dim3(2, images), kThreads, 0, stream>>>(batch, first);
    transform_kernel<<<dim3(kParts, images), kTeam, 0, stream>>>(batch, first);
    mix_kernel<<<dim3(kMixed, images), kThreads, 0, stream>>>(batch, first);
    finish_pixels_kernel<<<dim3(blocks_for(pixels, 1024), images), kThreads, 0, stream>>>(batch,
                                                                                          first);
  }
  return cudaPeekAtLastError();
}

}  // namespace penstock::cuda
