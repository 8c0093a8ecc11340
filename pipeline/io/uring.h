// Files through io_uring (by Boost.Asio), for data that the page cache does not hold.
#pragma once

#include <penstock/file_system.h>

#include "pipeline/io/file_root.h"

namespace penstock {

/// Makes a file system that answers a request from the page cache where it can (preadv2 with
/// RWF_NOWAIT, as fast as pread). It submits the rest of the group to io_uring at once.
///
/// Once the opened files exceed half the memory, large reads that miss the page cache go past it
/// (O_DIRECT). That costs a fifth of the CPU time and spares the cache's contents. Below that size
/// they go through the cache, so that the next epoch finds them there. `read` returns when the
/// kernel is done with every buffer, so no buffer is written late.
///
/// Returns null if the kernel or a container refuses io_uring, or if this build has none. The log
/// says so once.
FileSystemPtr make_uring_file_system(FileRootPtr root = system_root());

}  // namespace penstock
