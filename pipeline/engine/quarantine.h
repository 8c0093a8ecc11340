// The file that bad elements are named in.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include <penstock/error.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/io/posix.h"

namespace penstock {

/// Appends a line of JSON for each bad element: {"shard", "offset", "length", "index", "stage",
/// "code", "cause"}, null where unknown. A shard's name that is not UTF-8 also stands as
/// "shard_hex", its bytes in hexadecimal digits. Each line once, also over several runs: a run that
/// goes on from a state meets some elements again. Thread-safe.
class Quarantine {
 public:
  /// An empty path: does nothing. Throws Error{unavailable | not_found} if the file can't be
  /// opened, or is no regular one; a full disk is said through the log, and nothing is written.
  explicit Quarantine(std::string path);
  /// Never throws: the first line that can't be written is said through the log, and is the last.
  void add(const Error& error) noexcept EXCLUDES(mutex_);

 private:
  void open() REQUIRES(mutex_);
  void give_up(const Error& error) REQUIRES(mutex_);

  const std::string path_;
  Mutex mutex_;
  UniqueFd fd_ GUARDED_BY(mutex_);
  std::unordered_set<std::string> known_ GUARDED_BY(mutex_);
};

/// `text` as a JSON string with its quotes. What is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

}  // namespace penstock
