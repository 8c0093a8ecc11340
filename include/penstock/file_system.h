// The seam between sources and files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/error.h>

namespace penstock {

/// What identifies the contents of a file as far as the file system knows.
struct FileInfo {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

/// One read of a group: `size` bytes at `offset` to `out`.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::byte* out = nullptr;
  Status status;  ///< the answer; a file that ends before offset + size is data_loss, never a short
                  ///< read
};

/// An open file of fixed contents. Thread-safe.
class File {
 public:
  virtual ~File() = default;
  /// As of open.
  virtual const FileInfo& info() const noexcept = 0;
  /// False once the file is seen to differ from `info`, or was replaced or removed. Cheap: ask
  /// after a group of reads, so that no group is a mixture of two files.
  virtual bool unchanged() const noexcept { return true; }
  virtual const std::string& path() const noexcept = 0;
  /// Carries out every request, in any order, and waits for all. Never throws for a failed read:
  /// the requests say.
  virtual void read(std::span<ReadRequest> requests) = 0;
  /// The same past every cache, where the file system can: a second look at bytes that seem
  /// damaged.
  virtual void read_uncached(std::span<ReadRequest> requests) { read(requests); }
  /// Requests that `read` has under way at once; a larger group gains nothing.
  virtual std::size_t depth() const noexcept { return 1; }
  /// True if `read` may wait for a device or a network.
  virtual bool blocking() const noexcept { return true; }
  /// The whole file in memory, or an empty span if this file system does not map files.
  virtual std::span<const std::byte> mapped() const noexcept { return {}; }

  /// One read. Throws the Error that the request would carry.
  void read_exactly(std::uint64_t offset, std::span<std::byte> out);
  /// The whole file. Throws Error{out_of_range} if it is larger than `limit` bytes.
  std::vector<std::byte> read_all(std::uint64_t limit);
};

/// Opens and lists files. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// "pread", "io_uring", "mmap", "memory": named in explain and by --io.
  virtual std::string name() const = 0;
  /// Throws Error{not_found} or Error{unavailable} naming the path and the system's reason.
  virtual std::shared_ptr<File> open(const std::string& path) = 0;
  /// All of a file into `out`, if it still is as `expected` says, before and after; else false, and
  /// `out` is undefined. For many small files: may spare the File. Throws as `open` and reading do.
  virtual bool read_whole(const std::string& path, const FileInfo& expected, std::byte* out);
  /// Throws Error{not_found}.
  virtual FileInfo info(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  /// Paths of all regular files below a folder, sorted bytewise. Throws Error{not_found}.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  /// Regular files that match a shell pattern (*, ?, [...], in any part; a leading dot only by a
  /// dot), sorted bytewise; a path without a pattern is itself. Empty if nothing matches. Folders
  /// that nobody may read are left out with a warning, as lost+found would be in a shell; any other
  /// failure to list one throws.
  virtual std::vector<std::string> glob(const std::string& pattern) = 0;
};

using FileSystemPtr = std::shared_ptr<FileSystem>;

/// By name: "pread" (the default), "io_uring", "mmap". "io_uring" falls back to "pread", said once
/// through the log, where the kernel refuses it. Throws Error{invalid_argument} for another name.
FileSystemPtr make_file_system(const std::string& name);
/// The process-wide default ("pread").
FileSystemPtr default_file_system();
/// Files that live in memory: names and their contents.
FileSystemPtr make_memory_file_system(std::vector<std::pair<std::string, std::string>> files);

/// The path of the file that "mmap" has mapped at `address`, or null: for a handler of SIGBUS.
/// Valid while whoever touched the address waits. Async-signal-safe. Knows the first 4,096 files
/// that are mapped at a time.
const char* mapped_file_at(const void* address) noexcept;

}  // namespace penstock
