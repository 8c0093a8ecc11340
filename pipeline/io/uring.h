// Files through io_uring (by Boost.Asio), for data that the page cache does not hold.
#pragma once

#include <penstock/file_system.h>

namespace penstock {

/// Answers a request from the page cache where it can (preadv2 with RWF_NOWAIT, as fast as pread),
/// and submits the rest of the group at once. Once the files opened exceed half the memory, large
/// reads that miss go past the page cache (O_DIRECT), which costs a fifth of the CPU time and
/// spares what the cache holds; below that they go through it, so that the next epoch finds them
/// there. `read` returns when the kernel is done with every buffer, so that none is ever written
/// late.
///
/// Null, said once through the log, where the kernel or a container refuses io_uring or this build
/// has none of it.
FileSystemPtr make_uring_file_system();

}  // namespace penstock
