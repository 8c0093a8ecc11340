// How folders and patterns become files: the same for all sources and commands.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Removes the hidden files from `paths`, which `FileSystem::list(folder)` returned, and returns
/// them. A file is hidden if its name, or that of a folder between it and `folder`, begins with a
/// dot.
///
///     std::vector<std::string> paths = {"photos/cat/.git/x.jpg", "photos/cat/1.jpg"};
///     take_hidden(paths, "photos");   // {"photos/cat/.git/x.jpg"}
std::vector<std::string> take_hidden(std::vector<std::string>& paths, const std::string& folder);

}  // namespace penstock
