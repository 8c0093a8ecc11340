// Access to the files of one folder, and of no other.
#pragma once

#include <string>

#include <penstock/file_system.h>

namespace penstock::tool {

/// Returns a file system of the files below `folder` in `files`. Opening any other file, also
/// through a link or "..", throws Error{not_found} that says so. Throws it for a missing folder,
/// too.
FileSystemPtr files_within(FileSystemPtr files, const std::string& folder);

}  // namespace penstock::tool
