// The limits, for --limits.
#pragma once

#include <string>

namespace penstock::tool {

/// A line for each field of Limits, with its default.
std::string limits_text();

}  // namespace penstock::tool
