// The file that lists bad elements.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/errors/known_lines.h"
#include "pipeline/io/posix.h"

namespace penstock {

/// Appends a line of JSON for each bad element: {"shard", "offset", "length", "index", "stage",
/// "code", "cause"}, null where unknown. If a shard's name is not UTF-8, "shard_hex" also gives its
/// bytes in hexadecimal digits. Each line appears once, even over several runs, as a resumed run
/// meets some elements again. Thread-safe.
class Quarantine {
 public:
  /// With an empty path it does nothing. Throws Error{unavailable | not_found} if the file cannot
  /// be opened or is not a regular file. A full disk is only logged, and nothing is written. Memory
  /// does not depend on the number of lines, nor on what the file holds already.
  explicit Quarantine(std::string path);
  /// Writes what is left.
  ~Quarantine() { write(); }
  /// Adds an element to those that `write` will write. It may be called with a lock held.
  void add(const Error& error) noexcept EXCLUDES(mutex_);
  /// Writes the elements added so far. Never throws. If a line cannot be written, that is logged,
  /// and no more lines are written. Call it without a lock.
  void write() noexcept EXCLUDES(mutex_, file_mutex_);

 private:
  void open() REQUIRES(file_mutex_);
  void know_lines(File& file) REQUIRES(file_mutex_);
  void give_up(const Error& error) REQUIRES(file_mutex_);
  void write(const Error& error) REQUIRES(file_mutex_);

  const std::string path_;
  Mutex mutex_;
  std::vector<Error> added_ GUARDED_BY(mutex_);
  std::atomic<bool> some_{false};        // some were added
  std::atomic<bool> incomplete_{false};  // there was no memory for some
  // Held while the file is written, so that lines are in the order in which elements were added.
  SlowMutex file_mutex_;
  UniqueFd fd_ GUARDED_BY(file_mutex_);
  std::optional<KnownLines> known_ GUARDED_BY(file_mutex_);
};

}  // namespace penstock
