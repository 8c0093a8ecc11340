// Pipelines described in TOML. This header belongs to the component `pipelines`.
#pragma once

#include <penstock/language.h>  // IWYU pragma: keep

#include <string>

#include <penstock/dataset.h>
#include <penstock/iterator.h>

namespace penstock {

/// A dataset and the options to run it with, as described in docs/pipeline-toml.md:
///
///     ps::Pipeline train = ps::read_pipeline("train.toml");
///     ps::Iterator batches = train.dataset.iterate(train.options);
struct Pipeline {
  Dataset dataset;     ///< the graph
  RunOptions options;  ///< the settings of [run]; the seed is 0 unless [run] sets one
};

/// Reads a pipeline from TOML text. Paths are relative to the folder that the process runs in. The
/// settings of [run] for the JPEG decoder, SIMD and servers apply to the whole process from then
/// on. `batches` and `step_ms` are settings of the program `penstock`, and have no effect here.
/// Errors show `name` in place of a file name. Thread-safe, except for the settings of the process.
///
/// Throws Error{invalid_argument} for a mistake in the text, with its line and field, and for
/// `on_device`, which leaves work to a device. Also throws the errors of the sources.
Pipeline parse_pipeline(const std::string& toml, const std::string& name = "pipeline");
/// Reads a pipeline from a file of at most 1 MiB, like `parse_pipeline`. Throws Error{not_found |
/// unavailable} if the file can't be read.
Pipeline read_pipeline(const std::string& path);

}  // namespace penstock
