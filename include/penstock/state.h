// Numbers and strings as bytes, in the format of saved positions: for programs that save a state of
// their own with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

/// A writer that appends numbers (LEB128) and strings to a byte string. Not synchronised.
class StateWriter {
 public:
  StateWriter() = default;
  /// Writes into the memory of `reused`, whose contents are dropped.
  explicit StateWriter(std::string reused) : bytes_(std::move(reused)) { bytes_.clear(); }

  /// Appends a number.
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  /// Appends a string with its length.
  void put_bytes(std::string_view bytes) {
    put(bytes.size());
    bytes_.append(bytes);
  }
  /// Returns the bytes so far.
  const std::string& bytes() const noexcept { return bytes_; }
  /// Returns the bytes and gives them up.
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// A reader of the bytes of a StateWriter. Throws Error{data_loss} for anything else. Not
/// synchronised.
class StateReader {
 public:
  /// Reads from `bytes`, which must outlive the reader.
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}
  /// Returns the next number.
  std::uint64_t get();
  /// Returns the next string, as a view.
  std::string_view get_bytes();
  /// Returns the number of bytes that remain.
  std::size_t left() const noexcept { return bytes_.size(); }
  /// Returns true if no bytes remain.
  bool at_end() const noexcept { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace penstock
