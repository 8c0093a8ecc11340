// A double-buffered training loop that replays a CUDA graph for each slot. A slot's addresses never
// change, so what reads it is captured once; waiting and releasing stay outside of the graph.
//
//     graph_per_slot
//
// Prints:
//     200 steps by 2 graphs
//     y = 3 x + 1 was learned
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include <cuda_runtime.h>

#include <penstock/penstock.h>

namespace ps = penstock;

namespace {

constexpr int kRows = 64;
constexpr float kRate = 0.5F;

/// One step of gradient descent of y = a x + b, by one block.
__global__ void step(const float* x, const float* y, float* model) {
  __shared__ float slope[kRows];
  __shared__ float offset[kRows];
  const unsigned i = threadIdx.x;
  const float error = model[0] * x[i] + model[1] - y[i];
  slope[i] = error * x[i];
  offset[i] = error;
  for (unsigned half = kRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i >= half) continue;
    slope[i] += slope[i + half];
    offset[i] += offset[i + half];
  }
  if (i > 0) return;
  model[0] -= kRate * slope[0] / kRows;
  model[1] -= kRate * offset[0] / kRows;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw ps::Error(ps::ErrorCode::unavailable, cudaGetErrorString(error));
}

ps::Dataset lines() {
  return ps::range(kRows * 200)
      .map(
          [](const ps::Element& in) {
            const auto i = in["value"].item<std::int64_t>();
            const float x = static_cast<float>(i % 101) / 50 - 1;
            return ps::Element{{"x", ps::Tensor::scalar(x)}, {"y", ps::Tensor::scalar(3 * x + 1)}};
          },
          {.output = ps::Spec({{"x", ps::DType::f32, {}}, {"y", ps::DType::f32, {}}})})
      .batch(kRows, {.drop_remainder = true});
}

int run() {
  constexpr int kSlots = 2;
  const ps::DevicePtr gpu = ps::devices("cuda:0").front();
  ps::Feed feed(lines(), {gpu}, {.slots = kSlots});
  const ps::Stream compute(gpu, "compute");
  const auto stream = static_cast<cudaStream_t>(compute.view().native());
  auto* model = reinterpret_cast<float*>(gpu->allocate(2 * sizeof(float)));
  check(cudaMemsetAsync(model, 0, 2 * sizeof(float), stream));

  std::array<cudaGraphExec_t, kSlots> graphs{};
  int captured = 0;
  int steps = 0;
  while (std::optional<ps::StagedBatch> batch = feed.next(0)) {
    cudaGraphExec_t& graph = graphs[static_cast<std::size_t>(batch->slot())];
    if (graph == nullptr) {
      cudaGraph_t drawn = nullptr;
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      step<<<1, kRows, 0, stream>>>(reinterpret_cast<const float*>((*batch)["x"].data),
                                    reinterpret_cast<const float*>((*batch)["y"].data), model);
      check(cudaStreamEndCapture(stream, &drawn));
      check(cudaGraphInstantiate(&graph, drawn, 0));
      check(cudaGraphDestroy(drawn));
      ++captured;
    }
    batch->wait(compute);
    check(cudaGraphLaunch(graph, stream));
    batch->release(compute);
    ++steps;
  }

  std::array<float, 2> learned{};
  compute.view().copy({learned.data(), model, sizeof(learned)});
  compute.view().synchronize();
  for (cudaGraphExec_t graph : graphs) {
    if (graph != nullptr) check(cudaGraphExecDestroy(graph));
  }
  gpu->deallocate(reinterpret_cast<std::byte*>(model), 2 * sizeof(float));
  std::printf("%d steps by %d graphs\n", steps, captured);
  const bool right = std::abs(learned[0] - 3) < 0.01F && std::abs(learned[1] - 1) < 0.01F;
  std::printf("y = 3 x + 1 was%s learned\n", right ? "" : " not");
  return right ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const ps::Error& error) {
    std::fprintf(stderr, "graph_per_slot: %s\n", error.what());
    return 1;
  }
}
