// The part of a plan that does not depend on how the image is packed.
#pragma once

#include "pipeline/image/device/plan.h"
#include "pipeline/image/geometry.h"
#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

/// Returns a plan with all facts of an image of 1 or 3 channels, but not its parts or its scan.
DevicePlan facts_of(PlanKind kind, const Header& header, const image::Geometry& geometry,
                    int channels);

/// Returns false if a device does not support such an image. Throws Error{internal} if the plan is
/// wrong.
bool fits(const DeviceLayout& layout);

}  // namespace penstock::jpeg
