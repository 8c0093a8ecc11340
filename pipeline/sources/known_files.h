// Hashes that earlier runs on this machine made of files, so that they need not be read again.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/file_system.h>

namespace penstock {

/// A file whose contents were hashed. Path, inode and times only decide whether it must be hashed
/// again; they are part of no hash.
struct KnownFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::int64_t hashed_ns = 0;  ///< when hashing began, since 1970
  std::uint64_t sampled = 0;   ///< hash of the sampled bytes
  std::uint64_t whole = 0;     ///< hash of all bytes; 0: unknown
  std::uint64_t identity = 0;  ///< the value returned for the file

  /// Returns true if the file's bytes can't have changed since they were hashed. The clock of ctime
  /// is coarse, so a file that was hashed right after a change may have changed again.
  bool is_still(const FileInfo& info) const noexcept;
};

/// The known files of this user, in a folder of 64 small files. Not thread-safe; any number of
/// processes may use one folder. If two store at once, one may lose what the other stored, and its
/// files are hashed again.
class KnownFiles {
 public:
  /// `folder` empty: nothing is known and nothing is stored.
  explicit KnownFiles(std::string folder) : folder_(std::move(folder)) {}

  static constexpr std::size_t kParts = 64;

  /// Returns the number of the part that holds a file. One part is in memory at a time, so look up
  /// files of one part after the other.
  static std::size_t part_of(const FileInfo& info) noexcept;
  /// Returns null for an unknown inode. Valid until the next call.
  const KnownFile* find(const FileInfo& info);
  void add(const KnownFile& file) { added_.push_back(file); }
  /// Writes what was added since the last call. Failures are ignored: the next run hashes again.
  void store() noexcept;

 private:
  using Inode = std::pair<std::uint64_t, std::uint64_t>;  // with its device
  struct HashInode {
    std::size_t operator()(const Inode& inode) const noexcept;
  };
  using Files = std::unordered_map<Inode, KnownFile, HashInode>;

  void store_part(std::size_t part, const Files& newer) const;
  std::string path(std::size_t part) const;
  std::vector<KnownFile> load(std::size_t part) const;

  std::string folder_;
  std::size_t loaded_ = kParts;  // the part in memory, if any
  Files files_;                  // of that part
  std::vector<KnownFile> added_;
};

}  // namespace penstock
