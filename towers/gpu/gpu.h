// The GPU of a tower: its stream, memory and libraries.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/device.h>
#include <penstock/towers/array.h>
#include <penstock/towers/precision.h>

#include "towers/gpu/libraries.h"

namespace penstock::towers {

struct Gemm;

/// A stream of a device, the memory on it, and the libraries. All work is enqueued on the one
/// stream. Only `download` waits for the device, and `upload` for an earlier copy. Used by one
/// thread at a time. It must outlive the arrays it made.
class Gpu {
 public:
  /// `libraries` must outlive it. Throws Error{not_found | unavailable}.
  Gpu(DevicePtr device, const GpuLibraries& libraries, Precision precision, bool deterministic);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  StreamView stream() const noexcept { return stream_; }
  const DevicePtr& device() const noexcept { return device_; }
  const Cudnn& cudnn() const noexcept { return libraries_.cudnn; }
  const Nccl& nccl() const { return libraries_.nccl(); }
  void* cudnn_handle() const noexcept { return handles_.cudnn; }
  Precision precision() const noexcept { return precision_; }
  bool deterministic() const noexcept { return deterministic_; }
  /// Returns the type of activations: bf16 or f32.
  DType dtype() const noexcept { return precision_ == Precision::bf16 ? DType::bf16 : DType::f32; }

  /// Returns an empty array in the device's memory.
  Array array(DType dtype) { return Array(memory_.get(), dtype); }
  Array array() { return array(dtype()); }
  void clear(Array& array);
  Array download(const Array& array);
  void upload(std::span<const float> values, Array& to);

  template <typename Plan>
  void run(const Plan& plan, std::int64_t count) {
    run(plan, count, stream_);
  }
  /// The same on another stream of the device; any thread may call it.
  template <typename Plan>
  void run(const Plan& plan, std::int64_t count, StreamView stream) const {
    if (count > 0)
      check(std::get<Launch<Plan>>(libraries_.kernels.launches.all)(plan, count, stream));
  }
  /// Computes C [m,n] = A B + beta C for activations, as `form` says. C is f32 if `sums`, else it
  /// has the type of activations.
  void gemm(const Gemm& form, const void* a, const void* b, void* c, bool sums);

  /// Returns scratch memory, valid until the next call.
  Array& scratch(std::size_t bytes);
  /// Returns four f64 values of the current step: the loss summed over rows, the number of correct
  /// rows, the regularisation, and more than 0 if a label or an id was out of range. Layers add to
  /// them; the trainer clears and reads them.
  Array& result() noexcept { return result_; }
  /// Adds the sums over `rows`, [rows,4] f64, to `result`.
  void add_results(const Array& rows);

  /// Makes the device the calling thread's current one, for libraries that need that.
  void enter() const { enter(stream_); }
  void enter(StreamView stream) const { check(libraries_.kernels.enter(stream)); }
  void check(const char* error) const;
  void check_cudnn(int status) const;

 private:
  class Memory;
  /// The libraries' handles for this device.
  struct Handles {
    explicit Handles(const GpuLibraries& of) : libraries(of) {}
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;
    ~Handles();

    const GpuLibraries& libraries;
    void* cudnn = nullptr;
    void* blas = nullptr;
  };

  const DevicePtr device_;
  const GpuLibraries& libraries_;
  const Precision precision_;
  const bool deterministic_;
  const Stream stream_;
  const std::unique_ptr<Allocator> memory_;
  Handles handles_{libraries_};
  Array scratch_, result_, staged_;
};

/// Runs a plan over values of a tower: on its GPU, or on this thread if it has none.
template <typename Plan>
void run(Gpu* gpu, const Plan& plan, std::size_t count) {
  if (gpu != nullptr) {
    gpu->run(plan, static_cast<std::int64_t>(count));
  } else {
    run_here(plan, static_cast<std::int64_t>(count));
  }
}
/// Returns the values in host memory: the array itself, or a copy.
Array on_host(Gpu* gpu, const Array& array);
/// Returns the same as f32; also converts from bf16.
Array f32_on_host(Gpu* gpu, const Array& array);
void assign(Gpu* gpu, std::span<const float> values, Array& to);

}  // namespace penstock::towers
