// The interface between sources and files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/error.h>

namespace penstock {

/// The values that identify the contents of a file, as far as the file system knows them.
struct FileInfo {
  std::uint64_t size = 0;     ///< bytes
  std::int64_t mtime_ns = 0;  ///< of the last write, in nanoseconds since 1970
  std::uint64_t inode = 0;    ///< FUSE and others give the same file another number at any time
  /// When the inode changed last, by any write, rename, link or chmod. 0: not a file of this
  /// machine.
  std::int64_t ctime_ns = 0;
  std::uint64_t device = 0;  ///< of the inode

  /// Returns true if the inode has changed since it was `found` to be so, although the contents
  /// need not have.
  bool touched_since(const FileInfo& found) const noexcept {
    return ctime_ns != 0 && found.ctime_ns != 0 && !is_same_time(ctime_ns, found.ctime_ns);
  }
  /// Compares neither ctime, which a new hard link changes, nor the inode and its device, which
  /// prove nothing: a file on FUSE may get another number, and a file that is replaced gets another
  /// ctime. Two mtimes are the same if one is the other in coarser units.
  friend bool operator==(const FileInfo& a, const FileInfo& b) noexcept {
    const bool are_times = a.ctime_ns != 0 && b.ctime_ns != 0;  // else they may be versions
    return a.size == b.size &&
           (are_times ? is_same_time(a.mtime_ns, b.mtime_ns) : a.mtime_ns == b.mtime_ns);
  }

 private:
  /// Returns true also if one time is the other as a file system with coarser times stores it: SMB
  /// in 100 ns, others in microseconds, milliseconds, seconds or, FAT, two of these. Until a server
  /// has stored a file, its client may have finer times for it.
  static bool is_same_time(std::int64_t a, std::int64_t b) noexcept {
    if (a == b) return true;
    const std::int64_t coarse = a < b ? a : b;
    const std::int64_t fine = a < b ? b : a;
    for (const std::int64_t unit : {100LL, 1'000LL, 1'000'000LL, 1'000'000'000LL, 2'000'000'000LL})
      if (coarse == fine - fine % unit) return true;
    return false;
  }
};

/// One read of a group: copies `size` bytes at `offset` to `out`.
struct ReadRequest {
  std::uint64_t offset = 0;  ///< in the file, in bytes
  std::size_t size = 0;      ///< bytes to read
  std::byte* out = nullptr;  ///< where they go
  /// The result: beyond the size at opening data_loss, if it shrank changed, never a short read.
  Status status;
};

/// An open file whose contents are expected not to change. Thread-safe.
class File {
 public:
  virtual ~File() = default;
  /// Returns the file's identity as it was when the file was opened.
  virtual const FileInfo& info() const noexcept = 0;
  /// Returns the file's identity as it is now; nothing if the file was replaced or removed. This is
  /// cheap: call it after each group of reads, so that no group is a mixture of two files.
  virtual std::optional<FileInfo> now() const noexcept { return info(); }
  /// Returns false once the file is seen to differ from `info`, or was replaced or removed.
  bool unchanged() const noexcept { return now() == info(); }
  /// Returns the path that the file was opened with.
  virtual const std::string& path() const noexcept = 0;
  /// Carries out every request, in any order, and waits for all of them. Never throws for a failed
  /// read: see `ReadRequest::status`.
  virtual void read(std::span<ReadRequest> requests) = 0;
  /// Does the same but bypasses every cache, where the file system can. Used to read bytes again
  /// that seem damaged.
  virtual void read_uncached(std::span<ReadRequest> requests) { read(requests); }
  /// Returns the number of requests that `read` runs at once. A larger group gains nothing.
  virtual std::size_t depth() const noexcept { return 1; }
  /// Returns true if `read` may wait for a device or a network.
  virtual bool blocking() const noexcept { return true; }
  /// Returns the whole file in memory, or an empty span if this file system does not map files.
  virtual std::span<const std::byte> mapped() const noexcept { return {}; }

  /// Carries out one read. Throws the Error that the request would carry.
  void read_exactly(std::uint64_t offset, std::span<std::byte> out);
  /// Reads the whole file. Throws Error{out_of_range} if it is larger than `limit` bytes.
  std::vector<std::byte> read_all(std::uint64_t limit);
};

/// A file that is written from front to back, and that is there in full once `commit` has returned.
/// Until then an earlier file at its path stays as it was, even if the process crashes. Used by one
/// thread.
class WritableFile {
 public:
  /// Discards everything that was written, unless `commit` was called.
  virtual ~WritableFile() = default;
  /// Appends bytes. `append` and `commit` throw Error{unavailable | resource_exhausted | not_found
  /// | invalid_argument | out_of_range} naming the file. After an error, the file can only be
  /// destroyed.
  virtual void append(std::span<const std::byte> bytes) = 0;
  /// Puts the file in its place. Call it once, at the end.
  virtual void commit() = 0;
};

/// Opens, lists and writes files. Thread-safe.
class FileSystem {
 public:
  /// Takes a path.
  using Found = std::function<void(const std::string& path)>;

  virtual ~FileSystem() = default;
  /// Returns the name that `explain` shows and that --io takes: "pread", "io_uring", "mmap",
  /// "memory".
  virtual std::string name() const = 0;
  /// Opens a file. Throws Error{not_found} or Error{unavailable} naming the path and the system's
  /// reason.
  virtual std::shared_ptr<File> open(const std::string& path) = 0;
  /// Reads a whole file into `out`, provided that its identity is `expected` both before and after
  /// the read, and returns what it is then. Returns nothing otherwise, and leaves `out` undefined.
  /// Meant for many small files, since it may avoid the cost of a File. Throws as `open` and reads
  /// do.
  virtual std::optional<FileInfo> read_whole(const std::string& path, const FileInfo& expected,
                                             std::byte* out);
  /// Returns the identity of a file. Throws Error{not_found}.
  virtual FileInfo info(const std::string& path) = 0;
  /// Returns true if `path` is a folder.
  virtual bool is_directory(const std::string& path) = 0;
  /// Returns the paths of all regular files below a folder, sorted bytewise. Throws
  /// Error{not_found}. Folders below it without read permission are left out with a warning. Any
  /// other failure to list a folder throws.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  /// Calls `found` with the same paths, in any order, some perhaps twice. Millions of paths then
  /// need not be in memory at once. The default calls `list`.
  virtual void list_each(const std::string& folder, const Found& found);
  /// Returns the regular files that match a shell pattern, sorted bytewise. A pattern may have *, ?
  /// and [...] in any part of the path, and parts ** for any number of folders; only a dot matches
  /// a leading dot, unless `hidden`. `expand_pattern` expands braces first. A path without a
  /// pattern matches itself. Returns an empty list if nothing matches. Folders without read
  /// permission are left out as by `list`, like lost+found in a shell.
  virtual std::vector<std::string> glob(const std::string& pattern, bool hidden = false) = 0;
  /// Does the same for `glob`.
  virtual void glob_each(const std::string& pattern, bool hidden, const Found& found);
  /// Begins to write a file, or an object of s3:// or gs://, which then replaces the one of its
  /// name. If two writers write at once, the second is refused where the file system can tell;
  /// otherwise the last one wins. Throws Error{invalid_argument} for a file system that can't
  /// write, such as that of http://, and the errors of WritableFile.
  virtual std::unique_ptr<WritableFile> create(const std::string& path);
  /// Removes a file or an object. Does nothing if it does not exist. Throws Error{invalid_argument}
  /// as `create` does, and Error{unavailable}.
  virtual void remove(const std::string& path);
};

/// A shared file system.
using FileSystemPtr = std::shared_ptr<FileSystem>;

/// Returns the file system of that name: "pread" (the default), "io_uring" or "mmap". Where the
/// kernel refuses io_uring, "io_uring" falls back to "pread" and logs this once. Throws
/// Error{invalid_argument} for another name.
FileSystemPtr make_file_system(const std::string& name);
/// Returns the process-wide default ("pread").
FileSystemPtr default_file_system();
/// Returns a file system of files in memory, given by their names and contents.
FileSystemPtr make_memory_file_system(std::vector<std::pair<std::string, std::string>> files);

/// Returns the path of the file that "mmap" has mapped at `address`, or null. Meant for a handler
/// of SIGBUS. Valid while the thread that touched the address waits. Async-signal-safe. Knows only
/// the first 4,096 files that are mapped at a time.
const char* mapped_file_at(const void* address) noexcept;

}  // namespace penstock
