#include "towers/gpu/gpu.h"

#include <algorithm>
#include <array>
#include <utility>

#include <penstock/error.h>

#include "towers/onednn.h"

namespace penstock::towers {

/// Memory of the device. Work on the stream may still use memory that is given back.
class Gpu::Memory final : public Allocator {
 public:
  Memory(Device& device, StreamView stream) : device_(device), stream_(stream) {}
  std::byte* allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    stream_.synchronize();
    device_.deallocate(data, bytes);
  }

 private:
  Device& device_;
  const StreamView stream_;
};

Gpu::Gpu(DevicePtr device, const GpuLibraries& libraries, Precision precision, bool deterministic)
    : device_(std::move(device)),
      libraries_(libraries),
      precision_(precision),
      deterministic_(deterministic),
      stream_(device_, "tower"),
      memory_(std::make_unique<Memory>(*device_, stream_)),
      scratch_(memory_.get(), DType::u8),
      result_(memory_.get(), DType::f64) {
  enter();
  check_cudnn(cudnn().create(&handles_.cudnn));
  check_cudnn(cudnn().set_stream(handles_.cudnn, stream().native()));
  if (libraries_.blas.create(&handles_.blas) != 0)
    throw Error(ErrorCode::unavailable, device_->id().to_string() + ": cuBLASLt makes no handle");
  result_.resize({4});
  clear(result_);
}

Gpu::~Gpu() {
  stream().synchronize();
  static_cast<void>(libraries_.kernels.enter(stream()));
}

Gpu::Handles::~Handles() {
  if (blas != nullptr) static_cast<void>(libraries.blas.destroy(blas));
  if (cudnn != nullptr) static_cast<void>(libraries.cudnn.destroy(cudnn));
}

void Gpu::check(const char* error) const {
  if (error == nullptr) return;
  device_->check();  // reports a lost device as such
  throw Error(ErrorCode::unavailable, device_->id().to_string() + ": " + error);
}

void Gpu::check_cudnn(int status) const {
  if (status == 0) return;
  std::array<char, 512> about{};
  cudnn().last_error(about.data(), about.size() - 1);
  std::string text = std::string("cuDNN: ") + cudnn().error_string(status);
  if (about.front() != 0) text += std::string(": ") + about.data();
  check(text.c_str());
}

void Gpu::clear(Array& array) {
  stream().clear({array.bytes(), array.nbytes()});
}

Array Gpu::download(const Array& array) {
  Array copy(nullptr, array.dtype());
  copy.resize(array.shape());
  stream().copy({copy.bytes(), array.bytes(), array.nbytes()});
  stream().synchronize();
  device_->check();
  return copy;
}

void Gpu::upload(std::span<const float> values, Array& to) {
  stream().synchronize();  // an earlier copy may still read staged_
  staged_.resize({static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, staged_.data());
  stream().copy({to.bytes(), staged_.data(), values.size_bytes()});
}

Array& Gpu::scratch(std::size_t bytes) {
  if (bytes > scratch_.size()) scratch_.resize({static_cast<std::int64_t>(bytes)});
  return scratch_;
}

void Gpu::add_results(const Array& rows) {
  run(ColumnsPlan{rows.as<double>(), result_.as<double>(), rows.dim(0), 4, 1}, 4);
}

// Row-major C = A B is column-major C' = B' A', where B and A stay as they are.
void Gpu::gemm(const Gemm& form, const void* a, const void* b, void* c, bool sums) {
  if (form.m == 0 || form.n == 0) return;
  const CublasLt& lt = libraries_.blas;
  enter();
  const auto ensure = [&](int status) {
    if (status != 0) check(("cuBLASLt: " + std::string(lt.error_string(status))).c_str());
  };
  struct Owned {
    ~Owned() {
      if (object != nullptr) destroy(object);
    }
    int (*destroy)(void*);
    void* object = nullptr;
  };
  const int type = precision_ == Precision::bf16 ? CublasLt::kBf16 : CublasLt::kF32;
  Owned product{lt.destroy_matmul};
  ensure(lt.create_matmul(
      &product.object,
      precision_ == Precision::tf32 ? CublasLt::kComputeTf32 : CublasLt::kCompute32,
      CublasLt::kF32));
  const auto turn = [&](int attribute, bool transposed) {
    const std::int32_t op = transposed ? CublasLt::kTransposed : CublasLt::kAsItIs;
    ensure(lt.set_attribute(product.object, attribute, &op, sizeof(op)));
  };
  turn(CublasLt::kTransposeA, form.transpose_b);
  turn(CublasLt::kTransposeB, form.transpose_a);
  Owned left{lt.destroy_layout};
  Owned right{lt.destroy_layout};
  Owned result{lt.destroy_layout};
  const auto layout = [&](Owned& to, int of, std::int64_t rows, std::int64_t columns) {
    ensure(lt.create_layout(&to.object, of, static_cast<std::uint64_t>(rows),
                            static_cast<std::uint64_t>(columns), rows));
  };
  layout(left, type, form.transpose_b ? form.k : form.n, form.transpose_b ? form.n : form.k);
  layout(right, type, form.transpose_a ? form.m : form.k, form.transpose_a ? form.k : form.m);
  layout(result, sums ? CublasLt::kF32 : type, form.n, form.m);
  const float alpha = 1;
  ensure(lt.matmul(handles_.blas, product.object, &alpha, b, left.object, a, right.object,
                   &form.beta, c, result.object, c, result.object, nullptr, nullptr, 0,
                   stream().native()));
}

Array on_host(Gpu* gpu, const Array& array) {
  return gpu != nullptr ? gpu->download(array) : Array::view(array.data(), array.shape());
}

Array f32_on_host(Gpu* gpu, const Array& array) {
  Array there = on_host(gpu, array);
  if (there.dtype() != DType::bf16) return there;
  Array wide(there.shape());
  for (std::size_t i = 0; i < wide.size(); ++i) wide.data()[i] = load(there.as<Bf16>()[i]);
  return wide;
}

void assign(Gpu* gpu, std::span<const float> values, Array& to) {
  if (gpu != nullptr) {
    gpu->upload(values, to);
  } else {
    std::ranges::copy(values, to.data());
  }
}

}  // namespace penstock::towers
