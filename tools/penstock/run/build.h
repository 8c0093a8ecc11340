// Builds datasets from descriptions, as the program does.
#pragma once

#include <penstock/dataset.h>

#include "pipelines/build.h"  // IWYU pragma: export

namespace penstock::tool {

/// Makes the process's choices, looks into the first file, and opens the pipeline. If the file is
/// not of the source's format, the error names the flag to use. Throws as `open_pipeline`.
/// REQUIRES: spec.source.
Built build_for_devices(const PipelineSpec& spec);
Dataset build(const PipelineSpec& spec);

}  // namespace penstock::tool
