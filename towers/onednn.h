// What layers on oneDNN share.
#pragma once

#include <string>

#include <dnnl.hpp>

#include "towers/array.h"

namespace penstock::towers {

/// The calling thread's oneDNN calls use so many threads from now on. The bits of a sum depend on
/// it.
void set_compute_threads(int threads);

/// Names the instructions that oneDNN uses here: the bits of a sum depend on them, too.
std::string compute_instructions();

/// Call before oneDNN may make code: where it gets no memory for that it writes to null. Throws
/// std::bad_alloc if there is none, as far as can be told. Takes microseconds.
void check_room_for_code();

/// The CPU, and the calling thread's stream.
const dnnl::engine& cpu_engine();
dnnl::stream& cpu_stream();

/// [n,h,w,c] as oneDNN names it.
dnnl::memory::desc channels_last(const Shape& shape);
/// The array's memory as that. Arrays that are only read are taken as const.
dnnl::memory memory_of(const dnnl::memory::desc& desc, const Array& array);

/// C [m,n] = A [m,k] B [k,n] + beta C, row-major; a transposed operand lies the other way round.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  float beta = 0;
};
void gemm(const Gemm& form, const float* a, const float* b, float* c);
/// Has oneDNN make its code for `gemm` now, while nobody else takes memory.
void prepare_gemm();

}  // namespace penstock::towers
