// The settings of a run for data on servers.
#pragma once

#include <string>

#include "pipelines/settings.h"

namespace penstock::tool {

/// Applies the settings of `run` for servers to the library.
void use_remote(const Settings& run);

/// Returns a word of a command line, for example "--tar=https://…" or "A,B", with the secrets of
/// its URLs hidden.
std::string hidden_word(const std::string& word);

}  // namespace penstock::tool
