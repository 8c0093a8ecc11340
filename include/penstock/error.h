// Errors with an address: the cause, and its shard, record and stage.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

/// The kind of an error.
enum class ErrorCode : std::uint8_t {
  invalid_argument,    ///< a wrong graph, option or callable
  not_found,           ///< a shard or component that does not exist
  data_loss,           ///< bytes that do not decode, or fail their checksum
  out_of_range,        ///< an index or a size beyond a limit
  resource_exhausted,  ///< memory budget, file descriptors, disk
  unavailable,         ///< input or output failed; another try may succeed
  cancelled,           ///< the iterator was cancelled
  user,                ///< an exception left a user's callable
  internal,            ///< a defect of Penstock
  device_lost,         ///< a device failed for good: nothing on it can be used any more
  no_progress,         ///< something that should have ended did not
  mismatch,  ///< an element that does not fit its stage: rows of two shapes, an unknown class
  diverged,  ///< training whose loss, gradients or variables are no numbers any more
  changed,   ///< data that was written to, replaced or removed while a run read it: ends the run
};

/// Returns the name of the code, "data_loss".
std::string_view name_of(ErrorCode code) noexcept;

/// The origin of a record. Unknown fields are empty or -1.
struct Provenance {
  std::string shard{};       ///< path or name of the shard
  std::int64_t offset = -1;  ///< byte offset of the record in the shard
  std::int64_t index = -1;   ///< record index within the source
  std::string stage{};       ///< stage that failed, "map[2] decode_jpeg"
  std::int64_t length = -1;  ///< bytes of the record, from `offset` on
  std::string member{};      ///< the part of the record that is at fault: "7.cls"

  /// Returns "7.cls of train-0.tar @1536 record 12, stage map[2] decode_jpeg", or an empty text if
  /// nothing is known.
  std::string to_string() const;
};

/// An error: thrown when a graph is built wrongly, and carried as a value by everything that runs.
/// Immutable once constructed, so threads may share it.
class Error : public std::exception {
 public:
  /// Makes an error; `original` is the exception that left a user's callable, if any.
  Error(ErrorCode code, std::string cause, Provenance where = {},
        std::exception_ptr original = nullptr);

  /// Returns the kind of the error.
  ErrorCode code() const noexcept { return code_; }
  /// Returns the cause, without the address.
  const std::string& cause() const noexcept { return cause_; }
  /// Returns the address.
  const Provenance& where() const noexcept { return where_; }
  /// Returns the exception that left a user's callable, or null.
  const std::exception_ptr& original() const noexcept { return original_; }
  /// Returns "<cause> (<where>)".
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorCode code_;
  std::string cause_;
  Provenance where_;
  std::exception_ptr original_;
  std::string text_;
};

/// Success, or an error as a value. It is one pointer, and copies share the error.
class [[nodiscard]] Status {
 public:
  /// Success.
  Status() = default;
  /// Takes an error. Becomes `out_of_memory()` if there is no memory to keep `error` in.
  Status(Error error) noexcept;  // NOLINT(google-explicit-constructor)
  /// Makes an error without an address.
  Status(ErrorCode code, std::string cause) : Status(Error(code, std::move(cause))) {}
  /// Returns ErrorCode::resource_exhausted without an address; the original is a std::bad_alloc.
  /// Allocates nothing, so it never fails.
  static Status out_of_memory() noexcept;

  /// Returns true for success.
  bool ok() const noexcept { return error_ == nullptr; }
  /// Returns the error. REQUIRES: !ok().
  const Error& error() const noexcept { return *error_; }

 private:
  std::shared_ptr<const Error> error_;
};

/// Throws Error{invalid_argument}: "the <type> was moved from".
[[noreturn]] void throw_moved_from(const char* type);
/// Returns the pointer that an object of that type holds. Throws as `throw_moved_from` for null.
template <typename Pointer>
const Pointer& not_moved(const Pointer& pointer, const char* type) {
  if (pointer == nullptr) [[unlikely]]
    throw_moved_from(type);
  return pointer;
}

/// Returns the exception in flight as a Status. An Error stays as it is, std::bad_alloc becomes
/// `Status::out_of_memory()`, and anything else ErrorCode::user with the original kept. Returns
/// `Status::out_of_memory()` if there is no memory for that. Call it inside a catch block.
Status status_from_current_exception() noexcept;

}  // namespace penstock
