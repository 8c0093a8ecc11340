// A training step written in CUDA, fed by a Feed: each batch is on the GPU before it is asked for.
//
//     cuda_step
//
// Prints:
//     125 steps, sum 499500
//     stalled for less than the run took
#include <cstdio>
#include <optional>

#include <cuda_runtime.h>

#include <penstock/penstock.h>

namespace ps = penstock;

namespace {

__global__ void add_up(const long long* values, int count, unsigned long long* sum) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) atomicAdd(sum, static_cast<unsigned long long>(values[i]));
}

int run() {
  const ps::DevicePtr gpu = ps::devices("cuda:0").front();
  ps::Feed feed(ps::range(1000).batch(8), {gpu});
  const ps::Stream compute(gpu, "compute");
  const auto stream = static_cast<cudaStream_t>(compute.view().native());
  auto* sum = reinterpret_cast<unsigned long long*>(gpu->allocate(sizeof(unsigned long long)));
  cudaMemsetAsync(sum, 0, sizeof(*sum), stream);

  int steps = 0;
  while (std::optional<ps::StagedBatch> batch = feed.next(0)) {
    batch->wait(compute);  // the stream waits for the copy, this thread does not
    const ps::DeviceTensor& values = (*batch)["value"];
    add_up<<<1, 32, 0, stream>>>(reinterpret_cast<const long long*>(values.data),
                                 static_cast<int>(values.shape.volume()), sum);
    batch->release(compute);  // the slot is free when the stream gets here
    ++steps;
  }

  unsigned long long result = 0;
  compute.view().copy({&result, sum, sizeof(result)});
  compute.view().synchronize();
  gpu->deallocate(reinterpret_cast<std::byte*>(sum), sizeof(*sum));
  gpu->check();  // what went wrong on the way shows here
  const ps::TowerStats tower = feed.stats().towers[0];
  std::printf("%d steps, sum %llu\n", steps, result);
  std::printf("stalled for %s than the run took\n",
              tower.stall_s <= tower.wall_s ? "less" : "more");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const ps::Error& error) {
    std::fprintf(stderr, "cuda_step: %s\n", error.what());
    return 1;
  }
}
