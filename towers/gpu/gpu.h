// What a tower on a GPU computes with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/device.h>

#include "towers/array.h"
#include "towers/gpu/libraries.h"

namespace penstock::towers {

struct Gemm;

/// How layers on GPUs compute. Variables, their gradients and what optimizers remember are f32 in
/// each.
enum class Precision {
  f32,   ///< true f32
  tf32,  ///< f32 in memory; products of matrices and convolutions with tensor cores' 10 bits
  bf16,  ///< activations and their gradients are bf16, sums f32
};

/// A stream of a device, the memory on it, and the libraries. All work is enqueued on the one
/// stream; nothing here waits for the device but `download`, and `upload` for a copy that was made
/// before. Used by one thread at a time; outlives the arrays it made.
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
  /// Of activations: bf16 or f32.
  DType dtype() const noexcept { return precision_ == Precision::bf16 ? DType::bf16 : DType::f32; }

  /// An empty array in the device's memory.
  Array array(DType dtype) { return Array(memory_.get(), dtype); }
  Array array() { return array(dtype()); }
  void clear(Array& array);
  Array download(const Array& array);
  void upload(std::span<const float> values, Array& to);

  template <typename Plan>
  void run(const Plan& plan, std::int64_t count) {
    run(plan, count, stream_);
  }
  /// On another stream of the device; by any thread.
  template <typename Plan>
  void run(const Plan& plan, std::int64_t count, StreamView stream) const {
    if (count > 0)
      check(std::get<Launch<Plan>>(libraries_.kernels.launches.all)(plan, count, stream));
  }
  /// C [m,n] = A B + beta C as Gemm says, of activations; C is f32 if `sums`, else as they are.
  void gemm(const Gemm& form, const void* a, const void* b, void* c, bool sums);

  /// Scratch memory until the next call that asks for some.
  Array& scratch(std::size_t bytes);
  /// Four f64 of the step at hand: loss summed over rows, rows that are right, regularisation, and
  /// more than 0 for a label or an id that there is not. Layers add; the trainer clears and reads.
  Array& result() noexcept { return result_; }
  /// Adds [rows,4] f64 up into that.
  void add_results(const Array& rows);

  /// Makes the device the calling thread's, for libraries that ask for it.
  void enter() const { enter(stream_); }
  void enter(StreamView stream) const { check(libraries_.kernels.enter(stream)); }
  void check(const char* error) const;
  void check_cudnn(int status) const;

 private:
  class Memory;
  /// Of the libraries, for this device.
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

/// Plans over values that lie with a tower: on its GPU, or where there is none on this thread.
template <typename Plan>
void run(Gpu* gpu, const Plan& plan, std::size_t count) {
  if (gpu != nullptr) {
    gpu->run(plan, static_cast<std::int64_t>(count));
  } else {
    run_here(plan, static_cast<std::int64_t>(count));
  }
}
/// The values in host memory: themselves, or a copy.
Array on_host(Gpu* gpu, const Array& array);
void assign(Gpu* gpu, std::span<const float> values, Array& to);

}  // namespace penstock::towers
