// Every source and stage that the command line and TOML know. A new one: a line here, and one in
// build.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "tools/penstock/graph/settings.h"

namespace penstock::tool {

const std::vector<Kind>& source_kinds();
const std::vector<Kind>& stage_kinds();
/// What a run takes: epochs, seed, threads, memory…
const Kind& run_kind();

/// Null for an unknown name.
const Kind* find_kind(const std::vector<Kind>& kinds, std::string_view name) noexcept;

}  // namespace penstock::tool
