// The temporary file that a writer makes next to the file that it will replace.
#pragma once

#include <string>

#include <sys/types.h>

#include "pipeline/io/posix.h"

namespace penstock {

struct PartialOptions {
  /// Refuses to write while another writer is active; otherwise both write at once.
  bool exclusive = false;
  /// Takes over the file of a writer that ended without a rename, instead of removing it.
  bool resumable = false;
};

struct PartialFile {
  UniqueFd fd;  ///< open for reading and writing; the system locks the file while it is open
  std::string name;
};

/// Makes `path`.partial for a writer of `path`. The name may be taken by a link, a pipe, a folder,
/// a device, a file with several names or a file of another user. Such a file stays as it is: it is
/// neither followed, opened for writing nor waited for. The next name is used instead:
/// `path`.partial-1 and so on. A regular file that no running writer has locked was left by a
/// killed one: it is removed, or taken over. So is any such file where the file system has no
/// locks, if `options.exclusive` is set. Throws Error{unavailable} if `options.exclusive` is
/// set and another writer is active. Throws Error{unavailable | resource_exhausted | not_found} if
/// the file can't be made. All errors name `path`.
PartialFile make_partial(const std::string& path, mode_t mode, PartialOptions options = {});

/// Returns true if `name` names the open file `fd` directly, not through a link.
bool is_named(int fd, const std::string& name) noexcept;

}  // namespace penstock
