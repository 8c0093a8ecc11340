#include "pipeline/engine/errors/known_lines.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <penstock/internal/slow_work.h>

#include "pipeline/io/fs_support.h"

namespace penstock {
namespace {

constexpr std::uint64_t kFirstPlaces = 4096;
constexpr std::size_t kPlacesRead = 512;  // places that are read at once
using Block = std::array<std::uint64_t, kPlacesRead>;

/// Returns a file without a name, or an invalid descriptor with errno set.
UniqueFd nameless_file(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd || !is_unsupported(FsCall::nameless_file, errno)) return fd;
  std::string name = folder + "/.penstock-XXXXXX";
  fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (fd) ::unlink(name.c_str());
  return fd;
}

/// Reads or writes all of `bytes`. Bytes beyond the end of a sparse file read as zeros.
template <typename Transfer>
bool transfer_all(std::span<std::byte> bytes, std::uint64_t offset, Transfer transfer) {
  slow_work("a file is read or written");
  while (!bytes.empty()) {
    const ssize_t done = transfer(bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done == 0) errno = EIO;
    if (done == 0 || (done < 0 && errno != EINTR)) return false;
    if (done < 0) continue;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return true;
}

bool read_block(int fd, std::uint64_t block, Block& places) {
  return transfer_all(
      std::as_writable_bytes(std::span(places)), block * sizeof(Block),
      [fd](void* out, std::size_t size, off_t at) { return ::pread(fd, out, size, at); });
}

bool write_place(int fd, std::uint64_t place, std::uint64_t hash) {
  return transfer_all(std::as_writable_bytes(std::span(&hash, 1)), place * sizeof(hash),
                      [fd](const void* bytes, std::size_t size, off_t at) {
                        return ::pwrite(fd, bytes, size, at);
                      });
}

}  // namespace

KnownLines::KnownLines(const std::string& folder) : folder_(folder.empty() ? "." : folder) {
  UniqueFd fd = nameless_file(folder_);
  if (!fd) {
    folder_ = std::filesystem::temp_directory_path().string();
    fd = nameless_file(folder_);
  }
  table_ = make_table(std::move(fd), kFirstPlaces);
}

KnownLines::Table KnownLines::make_table(UniqueFd fd, std::uint64_t places) const {
  Table table{std::move(fd), places};
  const auto bytes = static_cast<off_t>(places * sizeof(std::uint64_t));
  if (!table.fd || ::ftruncate(table.fd.get(), bytes) != 0)
    throw error_from_errno(errno, "make a temporary file in", folder_);
  return table;
}

bool KnownLines::add(std::string_view line) {
  if (2 * (count_ + 1) > table_.places) grow();
  const std::uint64_t hash = std::max<std::uint64_t>(1, XXH3_64bits(line.data(), line.size()));
  const bool fresh = insert(table_, hash);
  count_ += fresh ? 1 : 0;
  return fresh;
}

bool KnownLines::insert(const Table& table, std::uint64_t hash) const {
  const std::uint64_t blocks = table.places / kPlacesRead;
  const std::uint64_t first = hash & (table.places - 1);
  std::uint64_t begin = first % kPlacesRead;
  for (std::uint64_t block = first / kPlacesRead;; block = (block + 1) % blocks, begin = 0) {
    Block places;
    if (!read_block(table.fd.get(), block, places))
      throw error_from_errno(errno, "read a temporary file in", folder_);
    for (std::uint64_t i = begin; i < kPlacesRead; ++i) {
      if (places[i] == hash) return false;
      if (places[i] != 0) continue;
      if (!write_place(table.fd.get(), block * kPlacesRead + i, hash))
        throw error_from_errno(errno, "write a temporary file in", folder_);
      return true;
    }
  }
}

void KnownLines::grow() {
  Table larger = make_table(nameless_file(folder_), 4 * table_.places);
  for (std::uint64_t block = 0; block < table_.places / kPlacesRead; ++block) {
    Block places;
    if (!read_block(table_.fd.get(), block, places))
      throw error_from_errno(errno, "read a temporary file in", folder_);
    for (const std::uint64_t hash : places) {
      if (hash != 0) insert(larger, hash);
    }
  }
  table_ = std::move(larger);
}

}  // namespace penstock
