// The differences between file systems: calls that some do not support, and facts of files that
// some do not keep. This is the one place that decides what they mean.
#pragma once

#include <span>
#include <string>

namespace penstock {

/// A system call that some file systems do not support.
enum class FsCall {
  lock,           ///< flock(2) of a file
  sync_file,      ///< fsync(2) and fdatasync(2) of a file
  sync_folder,    ///< open(2) of a folder to sync it, and fsync(2) of it
  set_mode,       ///< fchmod(2)
  check_access,   ///< faccessat(2) with flags
  nameless_file,  ///< open(2) with O_TMPFILE
  map,            ///< mmap(2) of a file, shared
};

/// An error of a call by which a file system, or a container, says that it does not support it.
struct Unsupported {
  FsCall call;
  int error;            ///< errno
  const char* systems;  ///< that give this error
};

/// Returns all of them.
std::span<const Unsupported> unsupported_calls() noexcept;
/// Returns true if a call that failed with `error` is not supported, so that its caller can do
/// without it. Other errors are failures.
bool is_unsupported(FsCall call, int error) noexcept;

/// The facts of files that a file system keeps.
struct FsTraits {
  /// A file has the same inode number as long as it exists, and no other file has it. False for
  /// FUSE, SMB, 9P, FAT and shared folders of virtual machines.
  bool lasting_inodes = true;
  /// Only this machine changes files, so that a file whose ctime is another was touched here. False
  /// also for NFS and other network file systems: a rename on the server, or on another client,
  /// changes the ctime, too.
  bool own_ctimes = true;
};

/// Returns the traits of the file system that holds `path`; those of a local one if statfs(2)
/// fails.
FsTraits fs_traits(const std::string& path) noexcept;

/// Syncs the folder that holds `path`, so that a new name in it survives a power failure. Where a
/// folder can't be opened or synced, the log says so once, as information: the file is there.
/// Returns 0, or the errno of a failure.
int sync_folder_of(const std::string& path) noexcept;

}  // namespace penstock
