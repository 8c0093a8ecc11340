// Files that are there in full or not at all, and who writes them.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Writes a file so that after a crash it is there in full, or what was there before is. A symbolic
/// link is followed, a folder, a device or a pipe is refused; a file that is replaced keeps its
/// mode. Of two writers at once the last one wins. Throws Error{unavailable | resource_exhausted |
/// not_found} naming it.
void write_durably(const std::string& path, std::string_view contents);

/// Throws what `write_durably` would throw if it can't write there, before there is anything to
/// write, and leaves what is there as it is.
void check_writable(const std::string& path);

/// Where the symbolic links of `path` lead, which may be nothing yet; `path` if it is none. Throws
/// Error{not_found} for links in a circle.
std::string follow_links(const std::string& path);

/// "process 708" that has locked an open file or folder by flock(2), or "another process" where the
/// system does not say.
std::string lock_holder(int fd);

}  // namespace penstock
