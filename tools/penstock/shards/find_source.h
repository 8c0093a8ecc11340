// The source that fits files, found from their contents.
#pragma once

#include <string>
#include <vector>

#include "pipelines/settings.h"

namespace penstock::tool {

/// Returns the source for the data at these paths: folders, files or patterns. They must hold data
/// of one format. If they hold several formats or an unknown one, throws UsageError that lists the
/// data found and the flags that read them. Throws Error{not_found} if there is nothing. `hidden`:
/// see find_shards.
Settings find_source(const std::vector<std::string>& paths, bool hidden);

/// Throws UsageError, naming the flag to use, if the source's first file plainly has a format that
/// the source does not read, or is a folder of such files. If the format is unclear, leaves the
/// decision to the source.
void check_content(const Settings& source);

}  // namespace penstock::tool
