// The file beside another that a writer makes before it takes the other's place.
#pragma once

#include <string>

#include <sys/types.h>

#include "pipeline/io/posix.h"

namespace penstock {

struct PartialOptions {
  /// Refuses to write where another writer is at work; otherwise that one goes on beside this.
  bool exclusive = false;
  /// Takes over what a writer that ended without a rename left, instead of removing it.
  bool resumable = false;
};

struct PartialFile {
  UniqueFd fd;  ///< to read and write; the system locks the file while it is open
  std::string name;
};

/// Makes `path`.partial for a writer of `path`. Nothing that stands there is followed, opened to
/// write or waited for: a link, a pipe, a folder, a device, a file with other names or of another
/// user stays as it is, and the next name is taken: `path`.partial-1 and so on. A regular file that
/// no living writer has locked was left by a killed one: it is removed, or taken over. Throws
/// Error{unavailable} if another writer is at work and this is to be the only one,
/// Error{unavailable | resource_exhausted | not_found} if the file can't be made; all name `path`.
PartialFile make_partial(const std::string& path, mode_t mode, PartialOptions options = {});

/// True if `name` stands for the open file `fd` and no link leads to it.
bool is_named(int fd, const std::string& name) noexcept;

}  // namespace penstock
