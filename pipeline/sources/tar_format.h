// The framing of tar archives, read in place. Names are data: nothing is ever written or followed.
//
// An archive consists of blocks of 512 bytes: for each member a header, then its data, padded.
// Supported: v7, ustar (POSIX.1-1988, with its name prefix), pax (POSIX.1-2001: path and size), GNU
// long names and base-256 sizes. Sources: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar
// manual, "Basic Tar Format".
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
/// The longest ustar name: prefix, '/', name.
inline constexpr std::size_t kMostJoined = 256;

enum class Kind {
  file,
  folder,
  link,     ///< symbolic or hard link: never followed
  special,  ///< a device or a pipe
  sparse,   ///< a file with holes, whose stored data is not its contents
  unknown,  ///< no member but facts about the archive (GNU's V, D, M, N), or an unknown type
};
/// Names a kind in error texts: "a link".
std::string_view text_of(Kind kind) noexcept;

struct Member {
  std::string_view name;  ///< valid until the next call
  Kind kind = Kind::file;
  std::uint64_t header = 0;  ///< offset of its first header, including extended ones
  std::uint64_t data = 0;    ///< offset of its data
  std::uint64_t size = 0;    ///< of its data
  std::uint64_t end = 0;     ///< offset behind its padding
};

/// True if a block of 512 bytes is a member's header by its checksum.
bool is_header(std::span<const std::byte> block);

/// A function that returns the bytes [offset, offset + size) of the archive, fewer at its end. If
/// `fresh`, it reads past every cache. The result is valid until the next call.
using BytesAt =
    std::function<std::span<const std::byte>(std::uint64_t offset, std::size_t size, bool fresh)>;

/// An iterator over the members of an archive. Used by one thread.
class Walker {
 public:
  /// Makes a walker. REQUIRES: `limits` outlives it.
  explicit Walker(const Limits& limits) : limits_(limits) {}

  /// Begins at the start of an archive of `size` bytes. With `whole` false, the bytes are a part of
  /// an archive: it has no end-of-archive marker, and lies in memory, so the results of `bytes`
  /// stay valid.
  void start(BytesAt bytes, std::uint64_t size, bool whole);
  /// Returns the next member, or nothing at the end. Throws Error{data_loss} for a damaged header
  /// and for an archive that ends within a member. Throws Error{out_of_range} beyond a limit. After
  /// an error, nothing can be found behind the byte `where()`.
  std::optional<Member> next();
  /// Returns true if the archive ended behind a member without its end-of-archive marker.
  bool lacks_end() const noexcept { return lacks_end_; }
  /// Returns where another archive begins behind the end of this one, as after
  /// `cat a.tar b.tar`. REQUIRES: `next` returned nothing.
  std::optional<std::uint64_t> another();
  /// Returns the offset of the member (of its first header) that `next` was about to read.
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
  Error damaged(const std::string& how) const;
  Error truncated() const;
  Error corrupt(const std::string& what) const;

  const Limits& limits_;
  BytesAt bytes_;
  std::uint64_t archive_size_ = 0;
  bool whole_ = true;
  bool lacks_end_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t at_ = 0;

  // The contents of extended headers for the member that follows.
  bool has_long_name_ = false;
  std::string_view long_name_;
  std::string name_memory_;  // holds long_name_ if the bytes it was read from do not stay
  std::optional<std::uint64_t> pax_size_;
  bool sparse_ = false;

  std::array<char, kMostJoined> joined_;  // prefix, '/', name
};

}  // namespace penstock::tar_file
