#include "pipeline/sources/tar_format.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "pipeline/sources/window.h"

namespace penstock::tar_file {
namespace {

/// A field of a header: offset and length.
struct Field {
  std::size_t at;
  std::size_t size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr std::size_t kType = 156;
constexpr std::size_t kSparseMore = 482, kSparseMoreNext = 504;
constexpr std::uint64_t kMostFilled = 1 << 20;

std::string_view text_at(std::span<const std::byte> block, Field field) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + field.at, field.size);
  return text.substr(0, text.find('\0'));
}

/// Parses octal digits between blanks, or GNU's base 256. Returns nothing for any other field.
std::optional<std::uint64_t> number_at(std::span<const std::byte> block, Field field) {
  const auto first = std::to_integer<unsigned>(block[field.at]);
  if (first == 0x80) {
    std::uint64_t value = 0;
    for (std::size_t i = 1; i < field.size; ++i) {
      if (value >> 56 != 0) return {};
      value = value << 8 | std::to_integer<std::uint64_t>(block[field.at + i]);
    }
    return value;
  }
  std::string_view text(reinterpret_cast<const char*>(block.data()) + field.at, field.size);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return {};
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

template <typename Byte>
std::int64_t sum_of(std::span<const std::byte> bytes) {
  std::int64_t sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<Byte>(byte);
  return sum;
}

/// Returns the sum of all bytes, with the bytes of the sum itself taken as blanks. Some old writers
/// summed signed bytes.
bool checksum_is_right(std::span<const std::byte> block) {
  const std::optional<std::uint64_t> stored = number_at(block, kChecksum);
  if (!stored) return false;
  const std::span<const std::byte> field = block.subspan(kChecksum.at, kChecksum.size);
  const auto wanted = static_cast<std::int64_t>(*stored) -
                      static_cast<std::int64_t>(kChecksum.size) * std::int64_t{' '};
  return wanted == sum_of<std::uint8_t>(block) - sum_of<std::uint8_t>(field) ||
         wanted == sum_of<std::int8_t>(block) - sum_of<std::int8_t>(field);
}

bool is_zero(std::span<const std::byte> block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

Kind kind_of(char type, std::string_view name) noexcept {
  switch (type) {
    case '\0':
    case '0':
    case '7':
      return name.ends_with('/') ? Kind::folder : Kind::file;  // v7 marks folders by name alone
    case '5':
      return Kind::folder;
    case '1':
    case '2':
      return Kind::link;
    case '3':
    case '4':
    case '6':
      return Kind::special;
    case 'S':
      return Kind::sparse;
    default:
      return Kind::unknown;
  }
}

bool is_bare_header(char type) noexcept {
  return type >= '1' && type <= '6';
}

std::uint64_t padded(std::uint64_t size) noexcept {
  return (size + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

bool is_header(std::span<const std::byte> block) {
  return checksum_is_right(block);
}

std::string_view text_of(Kind kind) noexcept {
  constexpr std::string_view kTexts[] = {"a file",         "a folder",      "a link",
                                         "a special file", "a sparse file", "of an unknown type"};
  return kTexts[static_cast<std::size_t>(kind)];
}

void Walker::start(BytesAt bytes, std::uint64_t size, bool whole) {
  bytes_ = std::move(bytes);
  archive_size_ = size;
  whole_ = whole;
  lacks_end_ = false;
  begin_ = at_ = 0;
}

std::optional<std::uint64_t> Walker::another() {
  // tar fills up its last record, of 10 KiB usually, with zeros.
  const std::uint64_t end = std::min(archive_size_, at_ + kMostFilled);
  for (std::uint64_t at = at_; at < end; at += kBlock) {
    const std::span<const std::byte> block = bytes_(at, kBlock, false);
    if (block.size() < kBlock) break;
    if (is_zero(block)) continue;
    return checksum_is_right(block) ? std::optional(at) : std::nullopt;
  }
  return std::nullopt;
}

Error Walker::damaged(const std::string& how) const {
  return Error(ErrorCode::data_loss, (whole_ && at_ == 0 ? "not a tar archive, or " : "") + how);
}

Error Walker::truncated() const {
  return damaged("truncated at byte " + std::to_string(archive_size_) +
                 ", within the member at byte " + std::to_string(begin_));
}

Error Walker::corrupt(const std::string& what) const {
  return damaged("corrupt header at byte " + std::to_string(at_) + ": " + what);
}

/// Returns the header block at at_, or nothing at the end of the archive.
std::span<const std::byte> Walker::header() {
  const std::span<const std::byte> block = bytes_(at_, kBlock, false);
  if (block.empty() && !whole_) return {};
  if (block.empty() && at_ == 0)
    throw Error(ErrorCode::data_loss, "truncated at byte 0: no tar archive is empty");
  if (block.empty()) {
    lacks_end_ = true;
    return {};
  }
  if (block.size() < kBlock) throw truncated();
  if (is_zero(block)) {
    const std::span<const std::byte> second = bytes_(at_ + kBlock, kBlock, false);
    if (second.size() < kBlock || is_zero(second)) return {};
    at_ += kBlock;  // a single zero block is not the end
    begin_ = at_;
    return header();
  }
  if (checksum_is_right(block)) return block;
  const std::span<const std::byte> again = bytes_(at_, kBlock, true);
  if (again.size() == kBlock && checksum_is_right(again)) return again;
  if (begin_ == 0 && again.size() >= 2 && again[0] == std::byte{0x1f} &&
      again[1] == std::byte{0x8b})
    throw Error(ErrorCode::data_loss, "a gzip file, not a tar archive: decompress it first");
  throw corrupt("its checksum is wrong");
}

std::span<const std::byte> Walker::body(std::uint64_t size) {
  if (size > Window::kMost)
    throw Error(ErrorCode::out_of_range, "the extended header at byte " + std::to_string(at_) +
                                             " has " + std::to_string(size) + " bytes");
  if (size > archive_size_ - at_) throw truncated();
  const std::span<const std::byte> bytes = bytes_(at_, size, false);
  if (bytes.size() < size) throw truncated();
  return bytes;
}

void Walker::read_long_name(std::uint64_t size) {
  const std::span<const std::byte> bytes = body(size);
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  keep_name(name.substr(0, name.find('\0')));
}

void Walker::keep_name(std::string_view name) {
  has_long_name_ = true;
  long_name_ = name;
  if (!whole_) return;
  name_memory_ = name;
  long_name_ = name_memory_;
}

/// Records have the form "<length> <key>=<value>\n". The length counts the whole record.
void Walker::read_pax(std::uint64_t size, bool global) {
  const std::span<const std::byte> bytes = body(size);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!rest.empty()) {
    std::size_t length = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(parsed.ptr - rest.data());
    if (parsed.ec != std::errc() || length > rest.size() || length < digits + 3 ||
        rest[digits] != ' ' || rest[length - 1] != '\n')
      throw corrupt("a pax record is malformed");
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) throw corrupt("a pax record has no value");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    const bool is_size = key == "size", is_path = key == "path";
    if (global && (is_size || is_path))
      throw corrupt("a global pax header sets " + std::string(key));
    if (is_path) {
      keep_name(value);
    } else if (is_size) {
      std::uint64_t number = 0;
      const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
      if (end.ec != std::errc() || end.ptr != value.data() + value.size())
        throw corrupt("its pax size is not a number");
      pax_size_ = number;
    } else if (key.starts_with("GNU.sparse.")) {
      sparse_ = true;
    }
  }
}

/// Old GNU sparse files have the rest of their map in blocks between header and data.
void Walker::skip_sparse_map(std::span<const std::byte> block) {
  bool more = block[kSparseMore] != std::byte{0};
  while (more) {
    const std::span<const std::byte> map = bytes_(at_, kBlock, false);
    if (map.size() < kBlock) throw truncated();
    more = map[kSparseMoreNext] != std::byte{0};
    at_ += kBlock;
  }
}

std::string_view Walker::name_of(std::span<const std::byte> block) {
  if (has_long_name_) return long_name_;
  const std::string_view name = text_at(block, kName);
  // GNU's magic is "ustar  ". GNU stores other fields where POSIX has the prefix.
  const bool posix = text_at(block, kMagic) == "ustar";
  const std::string_view prefix = posix ? text_at(block, kPrefix) : std::string_view();
  if (prefix.empty()) return name;
  char* end = std::copy(prefix.begin(), prefix.end(), joined_.data());
  *end++ = '/';
  end = std::copy(name.begin(), name.end(), end);
  return {joined_.data(), static_cast<std::size_t>(end - joined_.data())};
}

std::optional<Member> Walker::next() {
  begin_ = at_;
  has_long_name_ = false;
  pax_size_.reset();
  sparse_ = false;
  while (true) {
    const std::span<const std::byte> block = header();
    if (block.empty()) {
      if (at_ != begin_) throw truncated();
      return std::nullopt;
    }
    const char type = std::to_integer<char>(block[kType]);
    const std::optional<std::uint64_t> size = number_at(block, kSize);
    if (!size) throw corrupt("its size is not a number");
    if (type != 'x' && type != 'g' && type != 'L' && type != 'K') return finish(block, type, *size);
    at_ += kBlock;
    if (type == 'L') read_long_name(*size);
    if (type == 'x' || type == 'g') read_pax(*size, type == 'g');
    if (*size > archive_size_ - std::min(at_, archive_size_)) throw truncated();
    at_ += padded(*size);
  }
}

Member Walker::finish(std::span<const std::byte> block, char type, std::uint64_t size) {
  Member member;
  member.name = name_of(block);
  if (member.name.size() > limits_.max_name_bytes)
    throw Error(ErrorCode::out_of_range, "the name of the member at byte " +
                                             std::to_string(begin_) + " has " +
                                             std::to_string(member.name.size()) + " bytes");
  member.kind = sparse_ ? Kind::sparse : kind_of(type, member.name);
  member.header = begin_;
  at_ += kBlock;
  if (type == 'S') {
    // Reading the map's blocks may move the view that the name points to.
    if (!has_long_name_) keep_name(member.name);
    member.name = long_name_;
    skip_sparse_map(block);
  }
  member.data = at_;
  member.size = is_bare_header(type) ? 0 : pax_size_.value_or(size);
  if (member.size > archive_size_ - std::min(at_, archive_size_)) throw truncated();
  // The padding of the last member may be missing, but none of its data.
  member.end = std::min(at_ + padded(member.size), archive_size_);
  at_ = member.end;
  return member;
}

}  // namespace penstock::tar_file
