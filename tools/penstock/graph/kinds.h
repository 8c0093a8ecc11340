// Every source and stage that the command line and TOML know: tables in source_kinds.cpp,
// stage_kinds.cpp and image_kinds.cpp.
#pragma once

#include <string_view>
#include <vector>

#include <penstock/sources.h>

#include "tools/penstock/graph/settings.h"

namespace penstock::tool {

const std::vector<Kind>& source_kinds();
const std::vector<Kind>& stage_kinds();
/// Those of them that are image ops.
std::vector<Kind> image_kinds();
/// What a run takes: epochs, seed, threads, memory…
const Kind& run_kind();

/// Null for an unknown name.
const Kind* find_kind(const std::vector<Kind>& kinds, std::string_view name) noexcept;

/// "KEY" or "KEY:DTYPE" with DTYPE bytes, i64 or f32; by default i64 for a key that ends in label,
/// else bytes. The component is the key's last part for the first encoded image ("image") and the
/// first label ("label"), else the key. See docs/profile.md.
std::vector<FeatureSpec> parse_features(const std::vector<std::string>& texts);

}  // namespace penstock::tool
