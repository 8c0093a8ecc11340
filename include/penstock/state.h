// Numbers and strings as bytes, as positions of runs are saved: for programs that keep one of their
// own beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

/// Appends numbers (LEB128) and strings to a byte string. Not synchronised.
class StateWriter {
 public:
  StateWriter() = default;
  /// Writes into the memory of `reused`, whose contents are dropped.
  explicit StateWriter(std::string reused) : bytes_(std::move(reused)) { bytes_.clear(); }

  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void put_bytes(std::string_view bytes) {
    put(bytes.size());
    bytes_.append(bytes);
  }
  const std::string& bytes() const noexcept { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what StateWriter wrote. Throws Error{data_loss} for anything else. Not synchronised.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t get();
  std::string_view get_bytes();
  std::size_t left() const noexcept { return bytes_.size(); }
  bool at_end() const noexcept { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace penstock
