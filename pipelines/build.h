// Builds a dataset from its description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/image.h>
#include <penstock/iterator.h>
#include <penstock/sources.h>

#include "pipelines/pipeline_spec.h"

namespace penstock::tool {

/// A dataset, and the chain of image ops that it leaves to a device, if any.
struct Built {
  Dataset dataset;
  std::optional<ImageOps> on_device{};
};

/// Applies the settings of `run` that hold for the whole process: JPEG decoder, SIMD and servers.
void choose_for_process(const Settings& run);

/// Opens the source and adds the stages. Neighbouring image stages become one fused chain; an image
/// stage on an encoded image decodes it first. Throws the library's Error, and UsageError for
/// mistakes that only a description can have. REQUIRES: spec.source.
Built open_pipeline(const PipelineSpec& spec);
/// Returns the dataset alone, with its source opened on the file system `files`. The settings of
/// `spec.run` are ignored.
Dataset build(const PipelineSpec& spec, const FileSystemPtr& files);
/// Adds the stages after a dataset that already exists.
Dataset add_stages(Dataset dataset, const std::vector<Settings>& stages);

/// True if the source reads images that `penstock pack` wrote. REQUIRES: spec.source.
bool reads_image_records(const PipelineSpec& spec);
/// True if the spec leaves image ops to a device.
bool leaves_work_to_device(const PipelineSpec& spec);

/// Returns the first line of a file, which holds a token. Throws UsageError if there is none.
std::string token_in(const std::string& path);
/// Returns the options of a run. `seed` is used unless the spec has a seed of its own.
RunOptions run_options(const PipelineSpec& spec, std::uint64_t seed);

}  // namespace penstock::tool
