// All sources and stages of the command line and of TOML. Their tables are in source_kinds.cpp,
// stage_kinds.cpp and image_kinds.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/sources.h>

#include "pipelines/settings.h"

namespace penstock::tool {

const std::vector<Kind>& source_kinds();
/// Returns the flags of all sources, as "--images, --tar".
std::string source_flags();
const std::vector<Kind>& stage_kinds();
/// Returns the stages that are image ops.
std::vector<Kind> image_kinds();
/// Returns the parameters of a run: epochs, seed, threads, memory…
const Kind& run_kind();

/// Lists all sources and stages with their parameters, as `penstock explain --kinds` prints them.
std::string kinds_text();

/// Returns the kind of this name, or null if there is none.
const Kind* find_kind(const std::vector<Kind>& kinds, std::string_view name) noexcept;

/// Parses features: "KEY", "KEY:DTYPE" or "KEY:DTYPE=DEFAULT", where DTYPE is bytes, i64 or f32.
/// The default type is i64 for a key that ends in label, else bytes. The component has the name of
/// the key. Exceptions are the first encoded image ("image") and the first label ("label"), which
/// use the key's last part. See docs/profile.md.
std::vector<FeatureSpec> parse_features(const std::vector<std::string>& texts);

/// Parses feature lists: "KEY", "KEY:DTYPE" or "KEY:DTYPE[SHAPE]". SHAPE is that of a step: nothing
/// for one value, "1024", or "2x3". Without brackets, steps have any number of values. The default
/// types are those of features.
std::vector<SequenceSpec> parse_sequences(const std::vector<std::string>& texts);

}  // namespace penstock::tool
