#include "pipeline/sources/known_files.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <unistd.h>

#include <penstock/internal/crc32c.h>

#include "pipeline/sources/index_place.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

// Layout of a part, little-endian: magic, the files as they are in memory, crc32c u32 of all
// before.
constexpr char kMagic[16] = {'P', 'N', 'S', 'T', 'F', 'I', 'L', 'E', 'S', '1'};
static_assert(sizeof(KnownFile) == 9 * sizeof(std::uint64_t));

constexpr std::size_t kMostInPart = 32'768;  // the files that were stored first are forgotten
constexpr std::int64_t kCoarse_ns = 2'000'000'000;

std::uint64_t hash_of(std::uint64_t device, std::uint64_t inode) noexcept {
  const std::uint64_t both[2] = {device, inode};
  return XXH3_64bits(both, sizeof(both));
}

}  // namespace

bool KnownFile::is_still(const FileInfo& info) const noexcept {
  return size == info.size && mtime_ns == info.mtime_ns && ctime_ns == info.ctime_ns &&
         hashed_ns - ctime_ns >= kCoarse_ns;
}

std::size_t KnownFiles::HashInode::operator()(const Inode& inode) const noexcept {
  return hash_of(inode.first, inode.second);
}

std::size_t KnownFiles::part_of(const FileInfo& info) noexcept {
  return hash_of(info.device, info.inode) >> 58;
}

std::string KnownFiles::path(std::size_t part) const {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "/files.%02zu", part);
  return folder_ + name.data();
}

std::vector<KnownFile> KnownFiles::load(std::size_t part) const {
  std::vector<KnownFile> files;
  if (folder_.empty()) return files;
  try {
    const std::vector<std::byte> bytes =
        default_file_system()->open(path(part))->read_all(2 * kMostInPart * sizeof(KnownFile));
    std::uint32_t crc = 0;
    if (bytes.size() < sizeof(kMagic) + sizeof(crc)) return files;
    const std::size_t end = bytes.size() - sizeof(crc);
    std::memcpy(&crc, bytes.data() + end, sizeof(crc));
    if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0 ||
        (end - sizeof(kMagic)) % sizeof(KnownFile) != 0 ||
        crc != crc32c(std::span(bytes).first(end))) {
      return files;
    }
    files.resize((end - sizeof(kMagic)) / sizeof(KnownFile));
    if (!files.empty())
      std::memcpy(files.data(), bytes.data() + sizeof(kMagic), end - sizeof(kMagic));
  } catch (const Error&) {  // there is none, or it can't be read
  }
  return files;
}

const KnownFile* KnownFiles::find(const FileInfo& info) {
  const std::size_t part = part_of(info);
  if (part != loaded_) {
    files_ = {};
    for (const KnownFile& file : load(part)) files_[{file.device, file.inode}] = file;
    loaded_ = part;
  }
  const auto found = files_.find({info.device, info.inode});
  return found != files_.end() ? &found->second : nullptr;
}

void KnownFiles::store() noexcept try {
  std::vector<Files> newer(kParts);
  for (const KnownFile& file : std::exchange(added_, {})) {
    const FileInfo info{.inode = file.inode, .device = file.device};
    newer[part_of(info)][{file.device, file.inode}] = file;
  }
  if (folder_.empty() || !make_index_folder(path(0))) return;
  for (std::size_t part = 0; part < kParts; ++part) {
    if (!newer[part].empty()) store_part(part, newer[part]);
  }
} catch (const std::exception&) {
}

void KnownFiles::store_part(std::size_t part, const Files& newer) const {
  std::vector<KnownFile> files = load(part);
  std::erase_if(files, [&](const KnownFile& file) {
    return newer.contains({file.device, file.inode});
  });
  for (const auto& [inode, file] : newer) files.push_back(file);
  if (files.size() > kMostInPart) {
    files.erase(files.begin(), files.end() - static_cast<std::ptrdiff_t>(kMostInPart));
  }
  const auto bytes = std::as_bytes(std::span(files));
  const std::uint32_t crc = crc32c(bytes, crc32c(std::as_bytes(std::span(kMagic))));
  const std::string name = path(part);
  std::string temporary = name + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return;
  std::FILE* const out = ::fdopen(fd, "wb");
  if (out == nullptr) {
    ::close(fd);
    ::unlink(temporary.c_str());
    return;
  }
  bool good = std::fwrite(kMagic, sizeof(kMagic), 1, out) == 1;
  good = good && (bytes.empty() || std::fwrite(bytes.data(), bytes.size(), 1, out) == 1);
  good = good && std::fwrite(&crc, sizeof(crc), 1, out) == 1;
  good = std::fclose(out) == 0 && good;
  // Without fsync: after a crash the checksum fails, and the files are hashed again.
  if (!good || ::rename(temporary.c_str(), name.c_str()) != 0) ::unlink(temporary.c_str());
}

}  // namespace penstock
