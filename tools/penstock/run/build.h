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

/// The source alone.
Dataset build_source(const Settings& source, const FileSystemPtr& files);

/// `seed` is used unless the spec has one.
RunOptions run_options(const PipelineSpec& spec, std::uint64_t seed);

/// "KEY" or "KEY:DTYPE" with DTYPE bytes, i64 or f32; by default i64 for a key that ends in label,
/// else bytes. The component is the key's last part for the first encoded image ("image") and the
/// first label ("label"), else the key. See docs/profile.md.
std::vector<FeatureSpec> parse_features(const std::vector<std::string>& texts);

}  // namespace penstock::tool
