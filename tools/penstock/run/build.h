// From a description to a dataset.
#pragma once

#include <optional>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/image.h>
#include <penstock/iterator.h>
#include <penstock/sources.h>

#include "tools/penstock/graph/pipeline_spec.h"

namespace penstock::tool {

/// Opens the source and adds the stages. Neighbouring image stages become one fused chain; an image
/// stage on an encoded image decodes it first. Throws Error as the library does, and UsageError for
/// what only the program knows. REQUIRES: spec.source.
Dataset build(const PipelineSpec& spec);

/// A dataset, and the chain of image ops that it leaves to a device, if there is one.
struct Built {
  Dataset dataset;
  std::optional<ImageOps> on_device{};
};
Built build_for_devices(const PipelineSpec& spec);

/// True if its images are what `penstock pack` wrote. REQUIRES: spec.source.
bool reads_image_records(const PipelineSpec& spec);
/// True if it has image ops that a device is to carry out.
bool leaves_work_to_device(const PipelineSpec& spec);

/// The same behind a dataset that is there already.
Dataset add_stages(Dataset dataset, const std::vector<Settings>& stages);

/// `seed` is used unless the spec has one.
RunOptions run_options(const PipelineSpec& spec, std::uint64_t seed);

}  // namespace penstock::tool
