// A tower as on a GPU beside one on the host.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>

#include "tests/towers/arrays.h"
#include "tests/towers/fake_gpu.h"
#include "towers/gpu/gpu.h"
#include "towers/onednn.h"

namespace penstock::towers::test {

inline const Initializer kSome = Initializer::normal(0.5F);

/// Where towers compute: with the fakes, or on the first GPU.
enum class Place { fake, cuda };

/// The device and its libraries; nothing where there is none.
inline std::optional<std::pair<DevicePtr, const GpuLibraries*>> open(Place place) {
  if (place == Place::fake) return {{device({DeviceKind::host, 0}), &fake_gpu()}};
  try {
    return {{device({DeviceKind::cuda, 0}), &gpu_libraries()}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return std::nullopt;
  }
}

/// A store with one tower that computes on a GPU, and the same one that does not.
struct Pair {
  explicit Pair(const std::pair<DevicePtr, const GpuLibraries*>& where,
                Precision precision = Precision::f32, bool deterministic = false)
      : gpu(where.first, *where.second, precision, deterministic) {
    set_compute_threads(1);
    there.use(0, gpu);
  }
  Gpu gpu;
  VariableStore here = host_store(), there = host_store();
  std::deque<Array> numbers;

  /// As the GPU has it.
  Array up(const Array& values) {
    Array f32 = gpu.array(DType::f32);
    f32.resize(values.shape());
    gpu.upload(values.values(), f32);
    if (gpu.dtype() == DType::f32) return f32;
    Array bf16 = gpu.array();
    bf16.resize(values.shape());
    gpu.run(ToBf16Plan{f32.data(), bf16.as<Bf16>()}, static_cast<std::int64_t>(values.size()));
    return bf16;
  }
  std::span<const std::int64_t> up(const std::vector<std::int64_t>& values) {
    Array& there_too = numbers.emplace_back(gpu.array(DType::i64));
    there_too.resize({static_cast<std::int64_t>(values.size())});
    gpu.stream().copy({there_too.bytes(), values.data(), there_too.nbytes()});
    gpu.stream().synchronize();
    return {there_too.as<std::int64_t>(), values.size()};
  }
  template <typename T>
  std::vector<T> raw(const Array& values) {
    std::vector<T> copy(values.size());
    gpu.stream().copy({copy.data(), values.bytes(), values.nbytes()});
    gpu.stream().synchronize();
    gpu.device()->check();
    return copy;
  }
  std::vector<float> down(const Array& values) {
    if (values.dtype() == DType::f32) return raw<float>(values);
    std::vector<float> result;
    for (const Bf16 value : raw<Bf16>(values)) result.push_back(load(value));
    return result;
  }
  Pass pass(std::int64_t rows, bool training = true) {
    Pass made = skip(rows, training);
    made.gpu = &gpu;
    return made;
  }
  std::vector<double> result() { return raw<double>(gpu.result()); }
};

/// A convolution and its batch normalisation.
inline LayerPtr block(const Scope& scope, std::int64_t in, std::int64_t out) {
  auto layers = std::make_unique<Sequential>();
  layers->add(conv2d(scope, {.in = in, .out = out, .bias = false, .initializer = kSome}))
      .add(batch_norm(scope, {.channels = out, .scale = 0.7F}));
  return layers;
}

}  // namespace penstock::towers::test
