// A fake of the CUDA runtime, linked in place of CUDA's, with fake kernels. Device memory is the
// host's, streams are those of fake_streams.h, and the test decides what fails.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <string>

#include <penstock/device_backend.h>

#include "tests/staging/fake_streams.h"

namespace penstock::test {

struct Cudart {
  std::atomic<cudaError_t> broken = cudaSuccess;  // the error of all calls that use the driver
  std::atomic<bool> pins = true;
  std::atomic<int> pinned = 0;  // not freed yet
  std::atomic<int> peers = 0;   // calls that enable peer access
  std::atomic<int> memory = 0;  // allocations of device memory that are not freed yet
  std::atomic<int> events = 0;  // not destroyed yet
  TimeSource* clock = nullptr;
  double rate = 1;  // of the device's clock
  int driver = 13000;
  int devices = 1;
  cudaError_t counting = cudaSuccess;
  std::atomic<CUevent_st*> newest_event = nullptr;
  std::atomic<bool> tells_ended_streams = false;  // a call on one fails; else it aborts
};
extern Cudart cudart;

/// From now on, the `number`th call of the function fails, counted from 1; none if the name is
/// empty. A permanent error is then the result of all calls.
void fail_call(const std::string& function, int number, cudaError_t error);
/// Returns the calls of each function since the last `fail_call`.
std::map<std::string, int> calls();
/// Restores the state at the start of the program.
void reset_cudart();

}  // namespace penstock::test
