#include "pipeline/http/cache_room.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/crc32c.h>

namespace penstock::http {
namespace {

constexpr std::chrono::milliseconds kLockPatience{100};
constexpr std::chrono::milliseconds kLockPause{1};
constexpr std::size_t kMostVictims = 1 << 16;  // known at a time
constexpr int kFolders = 256;
constexpr std::size_t kNameDigits = 30;

struct CacheTotal {
  std::uint64_t bytes = 0;
  std::uint32_t magic = 0x6b6f6c62;
  std::uint32_t crc = 0;

  std::uint32_t right_crc() const noexcept {
    return crc32c(std::as_bytes(std::span(this, 1)).first(12));
  }
};
static_assert(sizeof(CacheTotal) == 16);

struct KeptBlock {
  std::int64_t used_ns = 0;
  std::uint64_t size = 0;
  BlockName name;

  bool operator<(const KeptBlock& other) const noexcept { return used_ns < other.used_ns; }
};

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// Returns the block's name for a file of a subfolder; nothing if the file is not a block.
std::optional<BlockName> block_name_of(int folder, const char* file) noexcept {
  if (std::strlen(file) != kNameDigits || std::strspn(file, "0123456789abcdef") != kNameDigits)
    return {};
  BlockName name;
  if (std::sscanf(file, "%14" SCNx64 "%16" SCNx64, &name.high, &name.low) != 2) return {};
  name.high |= static_cast<std::uint64_t>(folder) << 56;
  return name;
}

std::string subfolder(const std::string& root, int number) {
  char digits[8];
  std::snprintf(digits, sizeof(digits), "/%02x", static_cast<unsigned>(number));
  return root + digits;
}

/// The contents of a folder: the number of bytes, and the least recently used blocks.
class CacheScan {
 public:
  explicit CacheScan(const std::string& root) {
    for (int number = 0; number < kFolders; ++number) scan(subfolder(root, number), number);
    std::sort_heap(oldest_.begin(), oldest_.end());
  }

  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::vector<KeptBlock>& oldest() const noexcept { return oldest_; }

 private:
  void scan(const std::string& path, int number) {
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
    if (folder == nullptr) return;
    while (const dirent* const entry = ::readdir(folder.get())) {
      const auto name = block_name_of(number, entry->d_name);
      struct stat st {};
      if (!name || ::fstatat(::dirfd(folder.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      bytes_ += static_cast<std::uint64_t>(st.st_size);
      add({st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec,
           static_cast<std::uint64_t>(st.st_size), *name});
    }
  }
  void add(const KeptBlock& block) {
    if (oldest_.size() == kMostVictims) {
      if (!(block < oldest_.front())) return;
      std::pop_heap(oldest_.begin(), oldest_.end());
      oldest_.pop_back();
    }
    oldest_.push_back(block);
    std::push_heap(oldest_.begin(), oldest_.end());
  }

  std::uint64_t bytes_ = 0;
  std::vector<KeptBlock> oldest_;  // a heap, the one used last in front
};

}  // namespace

std::string BlockName::folder(const std::string& root) const {
  return subfolder(root, static_cast<int>(high >> 56));
}

std::string BlockName::path(const std::string& root) const {
  char digits[40];
  std::snprintf(digits, sizeof(digits), "/%014" PRIx64 "%016" PRIx64,
                high & std::uint64_t{0xffffffffffffff}, low);
  return folder(root) + digits;
}

std::optional<UniqueFd> CacheRoom::lock() {
  const std::string path = folder_ + "/lock";
  const auto open = [&] {
    return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  };
  UniqueFd fd = open();
  if (!fd && errno == ENOENT) {
    std::error_code none;
    if (std::filesystem::create_directories(folder_, none))
      ::chmod(folder_.c_str(), 0700);  // the data may need a key, so only the owner may read them
    fd = open();
  }
  if (!fd) throw error_from_errno(errno, "write", path);
  const auto until = std::chrono::steady_clock::now() + kLockPatience;
  while (true) {
    switch (try_lock(fd.get(), path)) {
      case Locked::yes:
        return fd;
      case Locked::not_supported:
        throw Error(ErrorCode::unavailable, "the file system has no locks", {.shard = folder_});
      case Locked::by_another:
        break;
    }
    if (std::chrono::steady_clock::now() >= until) return {};
    std::this_thread::sleep_for(kLockPause);
  }
}

std::optional<std::uint64_t> CacheRoom::told(int locked) const noexcept {
  CacheTotal total;
  if (::pread(locked, &total, sizeof(total), 0) != sizeof(total)) return {};
  if (total.magic != CacheTotal().magic || total.crc != total.right_crc()) return {};
  return total.bytes;
}

void CacheRoom::tell(int locked, std::uint64_t bytes) const {
  CacheTotal total{.bytes = bytes};
  total.crc = total.right_crc();
  if (::pwrite(locked, &total, sizeof(total), 0) != sizeof(total))
    throw error_from_errno(errno, "write", folder_ + "/lock");
}

bool CacheRoom::reserve(int locked, std::uint64_t bytes) {
  std::optional<std::uint64_t> total = told(locked);
  if (!total || *total > most_ || bytes > most_ - *total) total = make_room(bytes);
  const bool fits = bytes <= most_ && *total <= most_ - bytes;
  tell(locked, *total + (fits ? bytes : 0));
  return fits;
}

bool CacheRoom::nearly_full(int locked) const noexcept {
  return told(locked).value_or(0) >= most_ - most_ / 8;
}

std::uint64_t CacheRoom::make_room(std::uint64_t needed) const {
  ::unlink(scratch().c_str());  // left by a killed process: only the lock's holder writes
  const CacheScan scan(folder_);
  std::uint64_t bytes = scan.bytes();
  if (needed > most_) needed = 0;  // it gets no room
  if (bytes <= most_ - needed) return bytes;
  // Frees more than is needed now, since scanning the folder takes long.
  const std::uint64_t spared = most_ - std::max(needed, most_ / 16);
  for (const KeptBlock& block : scan.oldest()) {
    if (bytes <= spared) break;
    if (::unlink(block.name.path(folder_).c_str()) == 0 || errno == ENOENT)
      bytes -= std::min(bytes, block.size);
  }
  return bytes;
}

}  // namespace penstock::http
