#include "towers/onednn.h"

#include <array>
#include <new>
#include <string>

#include <sys/mman.h>

#include <penstock/error.h>

// Declared in the OpenMP run time that oneDNN links; nothing else of it is used.
extern "C" void omp_set_num_threads(int threads);

namespace penstock::towers {

void set_compute_threads(int threads) {
  omp_set_num_threads(threads);
}

std::string compute_instructions() {
  const dnnl_version_t* version = dnnl::version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " set " +
         std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa()));
}

void check_room_for_code() {
  constexpr std::size_t kUsual = 16U << 20;
  void* const room =
      ::mmap(nullptr, kUsual, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kUsual);
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::memory::desc channels_last(const Shape& shape) {
  return {{shape[0], shape[3], shape[1], shape[2]},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::nhwc};
}

dnnl::memory memory_of(const dnnl::memory::desc& desc, const Array& array) {
  return {desc, cpu_engine(), const_cast<float*>(array.data())};  // NOLINT: see the header
}

void gemm(const Gemm& form, const float* a, const float* b, float* c) {
  if (form.m == 0 || form.n == 0) return;
  const dnnl::status status =
      dnnl::sgemm(form.transpose_a ? 'T' : 'N', form.transpose_b ? 'T' : 'N', form.m, form.n,
                  form.k, 1.0F, a, form.transpose_a ? form.m : form.k, b,
                  form.transpose_b ? form.k : form.n, form.beta, c, form.n);
  if (status == dnnl::status::out_of_memory) throw std::bad_alloc();
  if (status != dnnl::status::success)
    throw Error(ErrorCode::internal,
                "oneDNN's sgemm failed: " + std::to_string(static_cast<int>(status)));
}

void prepare_gemm() {
  check_room_for_code();
  const std::array<float, 4> ones{1, 1, 1, 1};
  std::array<float, 4> product{};
  gemm({.m = 2, .n = 2, .k = 2}, ones.data(), ones.data(), product.data());
}

}  // namespace penstock::towers
