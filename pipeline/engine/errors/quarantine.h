// The file that lists bad elements.
#pragma once

#include <optional>
#include <string>

#include <penstock/error.h>

#include "pipeline/core/thread_annotations.h"
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
  /// Never throws. If a line cannot be written, that is logged, and no more lines are written.
  void add(const Error& error) noexcept EXCLUDES(mutex_);

 private:
  void open() REQUIRES(mutex_);
  void know_lines(File& file) REQUIRES(mutex_);
  void give_up(const Error& error) REQUIRES(mutex_);

  const std::string path_;
  Mutex mutex_;
  UniqueFd fd_ GUARDED_BY(mutex_);
  std::optional<KnownLines> known_ GUARDED_BY(mutex_);
};

}  // namespace penstock
