// The functions by which parts of the module use each other.
#pragma once

#include <cstdint>

#include <penstock/device_backend.h>

#include "staging/cuda/module.h"

namespace penstock::cuda {

/// REQUIRES: there is a device with this index.
DevicePtr make_device(int index, const CudaServices& services);
void finish_on(const FinishPlan& plan, StreamView stream);
void one_hot_on(const OneHotPlan& plan, StreamView stream);
void reconstruct_on(const reconstruct::Batch& batch, StreamView stream);

}  // namespace penstock::cuda
