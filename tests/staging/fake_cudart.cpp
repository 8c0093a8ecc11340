#include "tests/staging/fake_cudart.h"

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "staging/clock.h"
#include "staging/cuda/kernels.h"
#include "staging/cuda/runtime.h"

namespace penstock::test {

Cudart cudart;

namespace {

std::mutex mutex;
// Guarded by mutex.
std::map<std::string, int> counts;
std::string failing;
int failing_call = 0;
cudaError_t failing_with = cudaSuccess;

/// Counts the call, and says how it ends.
cudaError_t called(const std::string& function) {
  const std::lock_guard lock(mutex);
  const int count = ++counts[function];
  if (function != failing || count != failing_call) return cudart.broken;
  if (cuda::is_sticky(failing_with)) cudart.broken = failing_with;
  return failing_with;
}

}  // namespace

void fail_call(const std::string& function, int number, cudaError_t error) {
  const std::lock_guard lock(mutex);
  counts.clear();
  failing = function;
  failing_call = number;
  failing_with = error;
}

std::map<std::string, int> calls() {
  const std::lock_guard lock(mutex);
  return counts;
}

void reset_cudart() {
  fail_call("", 0, cudaSuccess);
  cudart.broken = cudaSuccess;
  cudart.pins = true;
  cudart.pinned = cudart.peers = cudart.memory = cudart.events = 0;
  cudart.clock = nullptr;
  cudart.rate = 1;
  cudart.driver = 13000;
  cudart.devices = 1;
  cudart.counting = cudaSuccess;
  cudart.newest_event = nullptr;
  cudart.tells_ended_streams = false;
}

}  // namespace penstock::test

namespace {

using namespace penstock::test;  // NOLINT(google-build-using-namespace)
auto& runtime = penstock::test::cudart;

double device_ns() {
  return static_cast<double>(runtime.clock->now()) * runtime.rate;
}
/// Counts a call on a stream. After the stream's end CUDA may crash, or tell.
cudaError_t called_on(cudaStream_t stream, const std::string& function) {
  if (is_live(stream)) return called(function);
  if (runtime.tells_ended_streams) return cudaErrorInvalidResourceHandle;
  std::fprintf(stderr, "%s on a stream that was destroyed\n", function.c_str());
  std::abort();
}
CUresult no_push(CUcontext) {
  return CUDA_SUCCESS;
}
CUresult no_context(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}
CUresult no_device(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult no_retain(CUcontext* context, CUdevice) {
  return no_context(context);
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  const std::string asked = name;
  *found = asked == "cuCtxPushCurrent"           ? reinterpret_cast<void*>(&no_push)
           : asked == "cuCtxPopCurrent"          ? reinterpret_cast<void*>(&no_context)
           : asked == "cuDevicePrimaryCtxRetain" ? reinterpret_cast<void*>(&no_retain)
                                                 : reinterpret_cast<void*>(&no_device);
  return cudaSuccess;
}
// Another runtime's errors don't show here.
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaError";
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return called("cudaThreadExchangeStreamCaptureMode");
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const cudaError_t error = called("cudaStreamCreateWithFlags");
  if (error == cudaSuccess) *stream = make_stream();
  return error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = called_on(stream, "cudaStreamDestroy");
  end_stream(stream);
  return error;
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  return called("cudaStreamQuery");
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  await(stream);
  return called_on(stream, "cudaStreamSynchronize");
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const cudaError_t error = called_on(stream, "cudaStreamWaitEvent");
  if (error == cudaSuccess) enqueue_wait(stream, *event);
  return error;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const cudaError_t error = called("cudaEventCreateWithFlags");
  if (error != cudaSuccess) return error;
  *event = new CUevent_st;
  runtime.newest_event = *event;
  ++runtime.events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --runtime.events;
  return called("cudaEventDestroy");
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const cudaError_t error = called_on(stream, "cudaEventRecord");
  if (error == cudaSuccess) enqueue_record(stream, *event, device_ns);
  return error;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const cudaError_t error = called("cudaEventQuery");
  const bool ready = !event->hangs && is_reached(*event);
  return error == cudaSuccess && !ready ? cudaErrorNotReady : error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->hangs) std::abort();  // for ever
  await(*event);
  return called("cudaEventSynchronize");
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = runtime.devices;
  return runtime.counting;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = runtime.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = static_cast<float>((reached_at(*to) - reached_at(*from)) / 1e6);
  return called("cudaEventElapsedTime");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  return called("cudaGetDeviceProperties");
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = -1;
  return called("cudaDeviceGetAttribute");
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = 1 << 20;
  return called("cudaMemGetInfo");
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const cudaError_t error = called("cudaMalloc");
  if (error != cudaSuccess) return error;
  *data = std::malloc(bytes);
  ++runtime.memory;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  --runtime.memory;
  return called("cudaFree");
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const cudaError_t error = called_on(stream, "cudaMemcpyAsync");
  if (error == cudaSuccess) enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return error;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t error = called_on(stream, "cudaMemsetAsync");
  if (error == cudaSuccess) enqueue(stream, [=] { std::memset(to, value, bytes); });
  return error;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  if (!runtime.pins || called("cudaHostAlloc") != cudaSuccess) return cudaErrorMemoryAllocation;
  *data = std::malloc(bytes);
  ++runtime.pinned;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  --runtime.pinned;
  return called("cudaFreeHost");
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return called("cudaDeviceCanAccessPeer");
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return ++runtime.peers > 1 ? cudaErrorPeerAccessAlreadyEnabled
                             : called("cudaDeviceEnablePeerAccess");
}

namespace penstock::cuda {

using test::called;

cudaError_t load_kernels() {
  return called("load_kernels");
}
cudaError_t busy(std::int64_t, cudaStream_t) {
  return called("busy");
}
cudaError_t finish(const FinishPlan&, cudaStream_t) {
  return called("finish");
}
cudaError_t reconstruct_batch(const reconstruct::Batch&, cudaStream_t) {
  return called("reconstruct_batch");
}
cudaError_t one_hot(const OneHotPlan&, cudaStream_t) {
  return called("one_hot");
}

}  // namespace penstock::cuda
