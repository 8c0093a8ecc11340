// The files that paths lead to: any of this machine, or only those below one folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include <penstock/internal/posix.h>

namespace penstock {

/// The system calls of a file system that take a path. Thread-safe.
class FileRoot {
 public:
  virtual ~FileRoot() = default;
  /// Works like open(2) for reading, with O_CLOEXEC added. Returns none and sets errno.
  virtual UniqueFd open(const std::string& path, int flags) const noexcept = 0;
  /// Works like stat(2).
  virtual int stat(const std::string& path, struct stat& st) const noexcept = 0;
  /// Returns true for a symbolic link to nothing.
  virtual bool is_dangling(const std::string& path) const = 0;
  /// Returns the path of a folder without links; the path itself if that can't be told.
  virtual std::string real_path(const std::string& folder) const = 0;
  /// Returns the error of a call that failed with an errno; see `error_from_errno`.
  virtual Error error(int error, std::string_view action, const std::string& path) const = 0;
  /// Throws Error{invalid_argument | not_found} for a pattern that can't lead to any file here.
  virtual void check_pattern(const std::string& pattern) const = 0;
  virtual bool writable() const noexcept = 0;
};

using FileRootPtr = std::shared_ptr<const FileRoot>;

/// All paths of this process.
const FileRootPtr& system_root();

/// How `folder_root` keeps within the folder.
enum class Beneath {
  kernel,  ///< by openat2(2), and by hand where the kernel has none or refuses a link
  hand,    ///< always folder by folder, as on old kernels
};
/// FileRoot that lead to files below `folder`, which is what relative ones count from. An absolute
/// path begins with the folder, as it is given here or without links. Links are followed as long
/// as they stay below it, absolute ones too. Everything else is Error{not_found} that says so, and
/// nothing outside of the folder is looked at: neither a name nor whether there is one. That holds
/// while others change the folder, too. Throws Error{not_found} if there is no such folder.
FileRootPtr folder_root(const std::string& folder, Beneath how = Beneath::kernel);

}  // namespace penstock
