// The framing of tar archives, read in place: names are data, nothing is ever written or followed.
//
// Blocks of 512 bytes: a header, then the member's data, padded. Understood: v7, ustar
// (POSIX.1-1988, with its name prefix), pax (POSIX.1-2001: path and size), GNU long names and
// base-256 sizes. Sources: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar manual, "Basic
// Tar Format".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <penstock/error.h>
#include <penstock/limits.h>

namespace penstock::tar_file {

inline constexpr std::size_t kBlock = 512;
/// Of a ustar name: prefix, '/', name.
inline constexpr std::size_t kMostJoined = 256;

enum class Kind {
  file,
  folder,
  link,     ///< symbolic or hard: never followed
  special,  ///< a device, a pipe, or a type nobody knows
  sparse,   ///< a file with holes, whose data is not what the reader gets
};
/// "a link": for error texts.
std::string_view text_of(Kind kind) noexcept;

struct Member {
  std::string_view name;  ///< valid until the next call
  Kind kind = Kind::file;
  std::uint64_t header = 0;  ///< offset of its first header, extended ones included
  std::uint64_t data = 0;    ///< offset of its data
  std::uint64_t size = 0;    ///< of its data
  std::uint64_t end = 0;     ///< offset of what follows, padding included
};

/// The bytes [offset, offset + size) of the archive, fewer at its end; past every cache if `fresh`.
/// What it returns is valid until the next call.
using BytesAt =
    std::function<std::span<const std::byte>(std::uint64_t offset, std::size_t size, bool fresh)>;

/// Goes from member to member. Used by one thread.
class Walker {
 public:
  /// REQUIRES: `limits` outlives the walker.
  explicit Walker(const Limits& limits) : limits_(limits) {}

  /// Begins at the start of an archive of `size` bytes. `whole` false: of a part of one, which has
  /// no end-of-archive marker and lies in memory: what `bytes` returns then stays valid.
  void start(BytesAt bytes, std::uint64_t size, bool whole);
  /// The next member, or nothing at the end. Throws Error{data_loss} for a damaged header, an
  /// archive that ends early (also one without its end-of-archive marker), Error{out_of_range}
  /// beyond a limit; where() then is the byte behind which nothing can be found.
  std::optional<Member> next();
  /// Offset of the member (its first header) that `next` was about to read.
  std::uint64_t where() const noexcept { return begin_; }

 private:
  struct Extended;

  std::span<const std::byte> header();
  void read_long_name(std::uint64_t size);
  void keep_name(std::string_view name);
  void read_pax(std::uint64_t size, bool global);
  void skip_sparse_map(std::span<const std::byte> block);
  std::span<const std::byte> body(std::uint64_t size);
  Member finish(std::span<const std::byte> block, char type, std::uint64_t size);
  std::string_view name_of(std::span<const std::byte> block);
  Error truncated() const;
  Error corrupt(const std::string& what) const;

  const Limits& limits_;
  BytesAt bytes_;
  std::uint64_t archive_size_ = 0;
  bool whole_ = true;
  std::uint64_t begin_ = 0;
  std::uint64_t at_ = 0;

  // What extended headers say about the member that follows.
  bool has_long_name_ = false;
  std::string_view long_name_;
  std::string name_memory_;  // of long_name_, where the bytes it was read from don't stay
  std::optional<std::uint64_t> pax_size_;
  bool sparse_ = false;

  std::array<char, kMostJoined> joined_;  // prefix, '/', name
};

}  // namespace penstock::tar_file
