// Helpers that layers on oneDNN share.
#pragma once

#include <string>

#include <dnnl.hpp>

#include <penstock/towers/array.h>

namespace penstock::towers {

/// Sets the number of threads that the calling thread's oneDNN calls use from now on. The bits of
/// sums depend on it.
void set_compute_threads(int threads);

/// Returns the name of the instruction set that oneDNN uses here. The bits of sums depend on it
/// too.
std::string compute_instructions();

/// Call this before oneDNN may generate code: if oneDNN gets no memory for its code, it writes to a
/// null pointer. Throws std::bad_alloc if there seems to be no memory. Takes microseconds.
void check_room_for_code();

/// Return the CPU engine, and the calling thread's stream.
const dnnl::engine& cpu_engine();
dnnl::stream& cpu_stream();

/// Returns oneDNN's description of an array [n,h,w,c].
dnnl::memory::desc channels_last(const Shape& shape);
/// Returns the array's memory in that form. The array is const so that arrays which oneDNN only
/// reads can be passed too.
dnnl::memory memory_of(const dnnl::memory::desc& desc, const Array& array);

/// The form of a product C [m,n] = A [m,k] B [k,n] + beta C, row-major. A transposed operand is
/// stored the other way round.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  float beta = 0;
};
void gemm(const Gemm& form, const float* a, const float* b, float* c);
/// Makes oneDNN generate the code of `gemm` now, while no other thread allocates memory.
void prepare_gemm();

}  // namespace penstock::towers
