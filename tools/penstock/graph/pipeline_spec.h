// A pipeline as it was asked for, before anything is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/penstock/graph/settings.h"

namespace penstock::tool {

/// What flags and TOML both describe, and `build` turns into a dataset. A value type.
struct PipelineSpec {
  PipelineSpec();

  std::optional<Settings> source;
  std::vector<Settings> stages;  ///< in the order they apply
  Settings run;
};

/// Reads a description. `name` is used in errors: "(train.toml:12 stages[2].size)". Throws
/// UsageError for anything unknown, missing, repeated, of the wrong type or out of range: nothing
/// is guessed. See docs/pipeline-toml.md.
PipelineSpec pipeline_from_toml(const std::string& text, const std::string& name);
/// The same from a file of at most 1 MiB. Throws UsageError if it can't be read.
PipelineSpec load_pipeline(const std::string& path);
/// What `pipeline_from_toml` reads back to the same spec.
std::string to_toml(const PipelineSpec& spec);

}  // namespace penstock::tool
