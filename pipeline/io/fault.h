// A file system that injects faults, below everything that reads files.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <penstock/file_system.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// The faults that a FaultFileSystem injects. Operations (opens, infos, listings and single reads)
/// are counted from 1 in the order in which they come.
struct FaultOptions {
  std::uint64_t seed = 0;
  std::uint64_t fail_nth = 0;    ///< this operation fails with "injected"; 0: none
  std::uint64_t fail_count = 1;  ///< this many operations fail, from that one on
  double fail_share = 0;         ///< share of reads that fail
  double flip_share = 0;         ///< share of reads of which one bit is flipped
  bool flip_uncached = false;    ///< flips show in read_uncached too, as if the medium were damaged
  bool split = false;            ///< every read reaches the inner file as random parts
  double delay_share = 0;        ///< share of reads that are delayed…
  std::chrono::microseconds delay{0};  ///< …by this much
  std::uint64_t hang_nth = 0;          ///< this operation waits for `release`
  /// Sizes in bytes that the files of these paths seem to have.
  std::map<std::string, std::uint64_t> truncate_at{};
  /// Numbers of bits, from 0, that are flipped in the files of these paths.
  std::map<std::string, std::vector<std::uint64_t>> flip_bits{};
};

/// A file system that adds faults to any other. Thread-safe. With one thread, its faults are a
/// function of the seed.
class FaultFileSystem final : public FileSystem,
                              public std::enable_shared_from_this<FaultFileSystem> {
 public:
  FaultFileSystem(FileSystemPtr inner, FaultOptions options);

  std::string name() const override { return inner_->name(); }
  std::shared_ptr<File> open(const std::string& path) override;
  FileInfo info(const std::string& path) override;
  bool is_directory(const std::string& path) override { return inner_->is_directory(path); }
  std::vector<std::string> list(const std::string& folder) override;
  std::vector<std::string> glob(const std::string& pattern, bool hidden = false) override;

  /// Releases all operations that hang, now and later.
  void release() EXCLUDES(mutex_);
  std::uint64_t operations() const noexcept { return operations_; }
  /// Returns the number of faults that the caller can notice: failures, flipped bits and hangs.
  std::uint64_t injected() const noexcept { return injected_; }
  /// Returns the number of operations that hang now.
  int hanging() const EXCLUDES(mutex_);

 private:
  class FaultFile;

  /// Counts an operation, and may wait. Returns false if it must fail. `number` is the operation's
  /// number, from which its random numbers follow.
  bool enter(std::uint64_t& number) EXCLUDES(mutex_);
  void enter_or_throw(const std::string& path);
  FileInfo truncated(const std::string& path, FileInfo info) const;

  const FileSystemPtr inner_;
  const FaultOptions options_;
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> injected_{0};
  mutable Mutex mutex_;
  CondVar released_changed_;
  bool released_ GUARDED_BY(mutex_) = false;
  int hanging_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
