// Errors with an address: what went wrong, and in which shard, record and stage.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

enum class ErrorCode : std::uint8_t {
  invalid_argument,    ///< a wrong graph, option or callable
  not_found,           ///< a shard or component that does not exist
  data_loss,           ///< bytes that do not decode, or fail their checksum
  out_of_range,        ///< an index or a size beyond a limit
  resource_exhausted,  ///< memory budget, file descriptors, disk
  unavailable,         ///< input or output failed; worth another try
  cancelled,           ///< the iterator was cancelled
  user,                ///< an exception left a user's callable
  internal,            ///< a defect of Penstock
  device_lost,         ///< a device failed for good: nothing on it can be used any more
  no_progress,         ///< something that should have ended did not
};

std::string_view name_of(ErrorCode code) noexcept;

/// Where a record came from. Unknown fields are empty or -1.
struct Provenance {
  std::string shard{};       ///< path or name of the shard
  std::int64_t offset = -1;  ///< byte offset of the record in the shard
  std::int64_t index = -1;   ///< record index within the source
  std::string stage{};       ///< stage that failed, "map[2] decode_jpeg"
  std::int64_t length = -1;  ///< bytes of the record, from `offset` on

  /// "train-0.tar @1536 record 12, stage map[2] decode_jpeg"; empty if nothing is known.
  std::string to_string() const;
};

/// Thrown when a graph is built wrongly, and carried as a value by everything that runs.
/// Immutable once constructed: safe to share between threads.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string cause, Provenance where = {},
        std::exception_ptr original = nullptr);

  ErrorCode code() const noexcept { return code_; }
  /// What happened, without the address.
  const std::string& cause() const noexcept { return cause_; }
  const Provenance& where() const noexcept { return where_; }
  /// The exception that left a user's callable, or null.
  const std::exception_ptr& original() const noexcept { return original_; }
  /// "<cause> (<where>)".
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorCode code_;
  std::string cause_;
  Provenance where_;
  std::exception_ptr original_;
  std::string text_;
};

/// Success, or an error as a value. One pointer; copying shares the error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// Becomes `out_of_memory()` where there is no memory to keep `error` in.
  Status(Error error) noexcept;  // NOLINT(google-explicit-constructor)
  Status(ErrorCode code, std::string cause) : Status(Error(code, std::move(cause))) {}
  /// ErrorCode::resource_exhausted without an address; the original is a std::bad_alloc. Allocates
  /// nothing, so that it can always be had.
  static Status out_of_memory() noexcept;

  bool ok() const noexcept { return error_ == nullptr; }
  /// REQUIRES: !ok().
  const Error& error() const noexcept { return *error_; }

 private:
  std::shared_ptr<const Error> error_;
};

/// The exception in flight as a Status: an Error as it is, std::bad_alloc as
/// `Status::out_of_memory()`, anything else as ErrorCode::user with the original kept. Where there
/// is no memory for that, `Status::out_of_memory()`. Call from inside a catch block.
Status status_from_current_exception() noexcept;

}  // namespace penstock
