// Files that are written in full or not at all, and the process that holds a file's lock.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Writes a file so that after a crash either the new file is there in full or the earlier contents
/// are. A symbolic link is followed. A folder, a device or a pipe is refused. A file that is
/// replaced keeps its mode. If two writers write at once, the last one wins. Throws
/// Error{unavailable | resource_exhausted | not_found} naming the file.
void write_durably(const std::string& path, std::string_view contents);

/// Throws the error that `write_durably` would throw if it can't write there. Call it before you
/// have anything to write. It leaves an existing file as it is.
void check_writable(const std::string& path);

/// Returns the path that the symbolic links of `path` lead to, which may not exist yet. Returns
/// `path` itself if it is no link. Throws Error{not_found} if the links form a circle.
std::string follow_links(const std::string& path);

/// Returns the process that has locked an open file or folder by flock(2), such as "process 708".
/// Returns "another process" where the system does not say which.
std::string lock_holder(int fd);

}  // namespace penstock
