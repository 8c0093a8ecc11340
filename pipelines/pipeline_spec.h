// The description of a pipeline, before any file is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipelines/settings.h"

namespace penstock::tool {

/// The description of a pipeline, which comes from flags or from TOML. `build` makes a dataset from
/// it. A value type.
struct PipelineSpec {
  PipelineSpec();

  std::optional<Settings> source;
  std::vector<Settings> stages;  ///< in the order they apply
  Settings run;
};

/// Reads a description from TOML. Errors use `name`: "(train.toml:12 stages[2].size)". Throws
/// UsageError for anything unknown, missing, repeated, of the wrong type or out of range, and never
/// guesses. See docs/pipeline-toml.md.
PipelineSpec pipeline_from_toml(const std::string& text, const std::string& name);
/// Reads a description from a TOML file of at most 1 MiB. Throws the errors of `read_toml_text` and
/// `pipeline_from_toml`.
PipelineSpec load_pipeline(const std::string& path);
/// Returns TOML from which `pipeline_from_toml` reads the same spec.
std::string to_toml(const PipelineSpec& spec);

}  // namespace penstock::tool
