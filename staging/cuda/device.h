// What the module's parts know of each other.
#pragma once

#include <cstdint>

#include <penstock/device_backend.h>

#include "staging/cuda/module.h"

namespace penstock::cuda {

/// REQUIRES: there is such a device.
DevicePtr make_device(int index, const CudaServices& services);
void finish_on(const FinishPlan& plan, std::int64_t volume, StreamView stream);
void one_hot_on(const OneHotPlan& plan, std::int64_t volume, StreamView stream);
void reconstruct_on(const reconstruct::Batch& batch, StreamView stream);

}  // namespace penstock::cuda
