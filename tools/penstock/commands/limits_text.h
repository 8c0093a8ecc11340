// The text that --limits prints.
#pragma once

#include <string>

namespace penstock::tool {

/// Returns one line for each field of Limits, with its default.
std::string limits_text();

}  // namespace penstock::tool
