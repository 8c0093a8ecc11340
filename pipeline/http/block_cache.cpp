#include "pipeline/http/block_cache.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/crc32c.h>
#include <penstock/log.h>

#include "pipeline/http/client.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock::http {
namespace {

/// The header before a block's bytes.
struct BlockHead {
  std::array<char, 8> magic{'P', 'S', 'T', 'B', 'L', 'K', '0', '1'};
  BlockName name;
  std::uint32_t size = 0;
  std::uint32_t crc = 0;  // of the fields before it, and of the block's bytes

  std::uint32_t right_crc(std::span<const std::byte> bytes) const noexcept {
    return crc32c(bytes, crc32c(std::as_bytes(std::span(this, 1)).first(28)));
  }
};
static_assert(sizeof(BlockHead) == 32);

/// Calls preadv or pwritev until all is done. Returns false at an error, with errno, and at the end
/// of the file.
template <typename Move>
bool move_all(BlockHead& head, std::byte* bytes, std::size_t size, const Move& move) noexcept {
  std::array<iovec, 2> parts{iovec{&head, sizeof(head)}, iovec{bytes, size}};
  off_t at = 0;
  while (parts[1].iov_len > 0 || parts[0].iov_len > 0) {
    const ssize_t n = move(parts.data(), 2, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = EIO;
      return false;
    }
    at += n;
    auto left = static_cast<std::size_t>(n);
    for (iovec& part : parts) {
      const std::size_t done = std::min(left, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + done;
      part.iov_len -= done;
      left -= done;
    }
  }
  return true;
}

/// Returns true for parameters of a presigned URL that are new each time. All others of a query may
/// select the data.
bool is_of_signature(std::string_view parameter) noexcept {
  const std::string_view name = parameter.substr(0, parameter.find('='));
  for (const std::string_view prefix : {"X-Amz-", "x-amz-", "X-Goog-", "x-goog-"})
    if (name.starts_with(prefix)) return true;
  for (const std::string_view known :
       {"AWSAccessKeyId", "GoogleAccessId", "Signature", "Expires", "Policy", "Key-Pair-Id", "sig",
        "se", "st", "sp", "spr", "sv", "sr", "skoid", "sktid", "skt", "ske", "sks", "skv"})
    if (name == known) return true;
  return false;
}

std::string lasting_query(std::string_view query) {
  std::string lasting;
  while (!query.empty()) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), parameter.size() + 1));
    if (!is_of_signature(parameter)) lasting += std::string(parameter) + '&';
  }
  return lasting;
}

BlockName hash_of(const void* data, std::size_t size) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.high64, hash.low64};
}

}  // namespace

ObjectKey::ObjectKey(const PinnedObject& object) {
  std::string text = object.url.shown() + '\n' + lasting_query(object.url.query) + '\n';
  text += std::to_string(object.info.size) + ' ' + std::to_string(object.info.inode);
  object_ = hash_of(text.data(), text.size());
}

BlockName ObjectKey::block(std::uint64_t number) const noexcept {
  const std::array<std::uint64_t, 3> words{object_.high, object_.low, number};
  return hash_of(words.data(), sizeof(words));
}

BlockCache::BlockCache(std::string folder, std::uint64_t most_bytes)
    : folder_(std::move(folder)), room_(folder_, most_bytes) {}

void BlockCache::trim() noexcept {
  try {
    const std::optional<UniqueFd> locked = room_.lock();
    if (!locked) return;
    room_.reserve(locked->get(), 0);
    full_.store(room_.nearly_full(locked->get()), std::memory_order_relaxed);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

bool BlockCache::read(const BlockName& name, std::span<std::byte> out) noexcept try {
  std::call_once(trimmed_, [this] { trim(); });
  const UniqueFd fd(::open(name.path(folder_).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) return false;
  BlockHead head;
  const bool sound =
      st.st_size == static_cast<off_t>(sizeof(head) + out.size()) &&
      move_all(head, out.data(), out.size(),
               [&](const iovec* to, int n, off_t at) { return ::preadv(fd.get(), to, n, at); }) &&
      head.magic == BlockHead().magic && head.name == name && head.size == out.size() &&
      head.crc == head.right_crc(out);
  if (!sound) {
    log_once(LogLevel::warning, "damaged block in " + folder_,
             folder_ +
                 ": a block of the cache is damaged; damaged blocks are removed and fetched again");
    remove(name);
    return false;
  }
  // The time of use, to the second, so that a block that is used all the time costs nothing.
  if (std::time(nullptr) > st.st_mtim.tv_sec + 1) ::futimens(fd.get(), nullptr);
  return true;
} catch (...) {  // no memory for its name
  return false;
}

bool BlockCache::admits(std::uint64_t wanted, std::uint64_t size) noexcept {
  constexpr std::uint64_t kOneIn = 16;
  if (!writes_.load(std::memory_order_relaxed)) return false;
  if (!full_.load(std::memory_order_relaxed) || 2 * wanted >= size) return true;
  return partial_.fetch_add(1, std::memory_order_relaxed) % kOneIn == 0;
}

void BlockCache::write(const BlockName& name, std::span<const std::byte> bytes) noexcept {
  if (!writes_.load(std::memory_order_relaxed)) return;
  try {
    put(name, bytes);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void BlockCache::put(const BlockName& name, std::span<const std::byte> bytes) {
  const std::optional<UniqueFd> locked = room_.lock();
  if (!locked) return;
  const std::string path = name.path(folder_);
  if (::access(path.c_str(), F_OK) == 0) return;  // another was faster
  BlockHead head;
  const bool fits = room_.reserve(locked->get(), sizeof(head) + bytes.size());
  full_.store(room_.nearly_full(locked->get()), std::memory_order_relaxed);
  if (!fits) return;
  head.name = name;
  head.size = static_cast<std::uint32_t>(bytes.size());
  head.crc = head.right_crc(bytes);
  const std::string scratch = room_.scratch();
  ::unlink(scratch.c_str());
  const auto check = [&](bool well) {
    if (well) return;
    const int error = errno;
    ::unlink(scratch.c_str());
    throw error_from_errno(error, "write", path);
  };
  {
    const UniqueFd fd(::open(scratch.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    check(static_cast<bool>(fd));
    check(move_all(
        head, const_cast<std::byte*>(bytes.data()), bytes.size(),
        [&](const iovec* from, int n, off_t at) { return ::pwritev(fd.get(), from, n, at); }));
  }
  check(::mkdir(name.folder(folder_).c_str(), 0777) == 0 || errno == EEXIST);
  check(::rename(scratch.c_str(), path.c_str()) == 0);
}

void BlockCache::remove(const BlockName& name) noexcept try {
  ::unlink(name.path(folder_).c_str());
} catch (...) {  // no memory: it stays until it is found damaged once more
}

void BlockCache::give_up(const char* why) noexcept {
  if (!writes_.exchange(false)) return;
  try {
    log(LogLevel::warning,
        "the cache of remote data is no longer written, and the run continues without it: " +
            std::string(why));
  } catch (...) {  // no memory to say so
  }
}

}  // namespace penstock::http
