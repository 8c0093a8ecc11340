#include "pipeline/sources/contents.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>

#include <penstock/remote_files.h>

#include "pipeline/io/fs_support.h"
#include "pipeline/io/posix.h"
#include "pipeline/sources/known_files.h"
#include "pipeline/sources/parallel.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

constexpr std::uint64_t kEnds = 64 << 10;
constexpr std::uint64_t kBlock = 4 << 10;
constexpr std::uint64_t kBlocks = 64;
constexpr std::uint64_t kSampled = 2 * kEnds + kBlocks * kBlock;
constexpr std::uint64_t kChunk = 4 << 20;
constexpr std::uint64_t kMostFresh = 1 << 30;
constexpr std::size_t kRanges = 64;

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t both[2] = {a, b};
  return XXH3_64bits(both, sizeof(both));
}

/// Reads the whole file. Never 0.
std::uint64_t hash_whole(File& file) {
  const std::uint64_t size = file.info().size;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<std::byte> chunk(std::min(size, kChunk));
  for (std::uint64_t at = 0; at < size; at += chunk.size()) {
    const std::span<std::byte> part(chunk.data(), std::min<std::uint64_t>(chunk.size(), size - at));
    file.read_exactly(at, part);
    XXH3_64bits_update(&state, part.data(), part.size());
  }
  return mix(XXH3_64bits_digest(&state), size) | 1U;
}

/// Reads the file's ends and blocks between them, one in each of 64 equal parts. Never 0.
std::uint64_t hash_samples(File& file) {
  const std::uint64_t size = file.info().size;
  std::vector<std::byte> bytes(kSampled);
  std::vector<ReadRequest> requests;
  requests.push_back({0, kEnds, bytes.data(), {}});
  requests.push_back({size - kEnds, kEnds, bytes.data() + kEnds, {}});
  const std::uint64_t part = (size - 2 * kEnds) / kBlocks;
  for (std::uint64_t b = 0; b < kBlocks; ++b) {
    const std::uint64_t within = part > kBlock ? mix(size, b) % (part - kBlock) : 0;
    requests.push_back(
        {kEnds + b * part + within, kBlock, bytes.data() + 2 * kEnds + b * kBlock, {}});
  }
  file.read(requests);
  for (const ReadRequest& request : requests) {
    if (!request.status.ok()) throw request.status.error();
  }
  return mix(XXH3_64bits(bytes.data(), bytes.size()), size) | 1U;
}

/// `known` null: the inode is unknown.
KnownFile hash_file(File& file, const FileInfo& info, const KnownFile* known) {
  KnownFile found{.device = info.device,
                  .inode = info.inode,
                  .size = info.size,
                  .mtime_ns = info.mtime_ns,
                  .ctime_ns = info.ctime_ns,
                  .hashed_ns = now_ns(),
                  .sampled = 0,
                  .whole = 0,
                  .identity = 0};
  if (info.size <= kSampled) {
    found.sampled = found.whole = found.identity = hash_whole(file);
    return found;
  }
  found.sampled = found.identity = hash_samples(file);
  const bool changed =
      known != nullptr && (known->size != info.size || known->mtime_ns != info.mtime_ns ||
                           known->ctime_ns != info.ctime_ns);
  // Right after a write, reading all is cheap, and saves doubts about what comes next.
  const bool fresh = info.ctime_ns != 0 && !found.is_still(info) && info.size <= kMostFresh;
  if (changed || fresh) found.whole = hash_whole(file);
  if (known == nullptr || known->sampled != found.sampled) return found;
  if (!changed && found.whole == 0) found.whole = known->whole;
  // The samples are the same. Unless all bytes are known to be, a changed file is another one.
  const bool same = found.whole != 0 && known->whole != 0 ? found.whole == known->whole : !changed;
  found.identity = same ? known->identity : mix(found.whole, 1) | 1U;
  return found;
}

/// Like `hash_file`. A file with a part that can't be read is still of use: its records there fail,
/// and others do not. So its size has to do.
KnownFile hash_patiently(File& file, const FileInfo& info, const KnownFile* known) {
  for (int tries = 1;; ++tries) {
    try {
      return hash_file(file, info, known);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unavailable && try_again(file.path(), tries)) continue;
      if (!file.unchanged()) throw changed_error(file.path());
      KnownFile unreadable{};
      unreadable.identity = mix(info.size, 0) | 1U;
      return unreadable;
    }
  }
}

/// Whether the numbers and times of files identify them, by device. Where they may change or return
/// without the file, nothing that was known of a file is used.
class LastingNumbers {
 public:
  bool of(const ListedFiles& list, std::size_t i, const FileInfo& info) {
    if (info.ctime_ns == 0) return false;  // not a file of this machine
    const auto [at, is_new] = known_.emplace(info.device, false);
    if (is_new) at->second = fs_traits(list.path(i)).lasting_inodes;
    return at->second;
  }

 private:
  std::map<std::uint64_t, bool> known_;
};

/// A file that must be hashed, and what is known of it.
struct UnknownFile {
  std::size_t number = 0;
  bool lasting = false;  // the file system keeps the numbers of its files
  std::optional<KnownFile> before;
  KnownFile found;
};
using Unknown = std::vector<UnknownFile>;
constexpr std::size_t kMostUnknown = 4096;  // that are in memory at a time

/// Returns the numbers of the files, those in the same part of the known files next to each other.
std::vector<std::uint32_t> in_order_of_parts(const ListedFiles& list) {
  std::array<std::uint32_t, KnownFiles::kParts + 1> begin{};
  for (std::size_t i = 0; i < list.count; ++i) ++begin[KnownFiles::part_of(list.info(i)) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::uint32_t> order(list.count);
  for (std::size_t i = 0; i < list.count; ++i) {
    order[begin[KnownFiles::part_of(list.info(i))]++] = static_cast<std::uint32_t>(i);
  }
  return order;
}

}  // namespace

std::vector<std::uint64_t> hash_contents(FileSystem& files, const ListedFiles& list,
                                         const std::string& folder) {
  std::vector<std::uint64_t> hashes(list.count);
  KnownFiles known(folder == "-" || is_remote(folder) ? std::string() : folder);
  Unknown unknown;
  const auto hash_unknown = [&] {
    for_each_parallel(unknown.size(), [&](std::size_t u) {
      auto& [number, lasting, before, found] = unknown[u];
      const std::string path = list.path(number);
      const FileInfo info = list.info(number);
      const std::shared_ptr<File> file = files.open(path);
      if (file->info() != info) throw changed_error(path);
      found = hash_patiently(*file, info, before ? &*before : nullptr);
      hashes[number] = found.identity;
    });
    for (const UnknownFile& file : unknown) {
      if (file.lasting && file.found.sampled != 0) known.add(file.found);
    }
    known.store();
    unknown.clear();
  };
  LastingNumbers lasting;
  for (const std::size_t i : in_order_of_parts(list)) {
    const FileInfo info = list.info(i);
    if (info.ctime_ns == 0) {  // not a file of this machine
      const std::string path = list.path(i);
      if (is_remote(path)) {
        hashes[i] = version_of(path, info);
        continue;
      }
    }
    const bool lasts = lasting.of(list, i, info);
    const KnownFile* const file = lasts ? known.find(info) : nullptr;
    if (file != nullptr && file->is_still(info)) {
      hashes[i] = file->identity;
      continue;
    }
    unknown.push_back({i, lasts, file != nullptr ? std::optional(*file) : std::nullopt, {}});
    if (unknown.size() == kMostUnknown) hash_unknown();
  }
  hash_unknown();
  return hashes;
}

void describe_contents(Description& description, std::size_t count,
                       const std::function<std::string(std::size_t)>& name,
                       const std::function<std::uint64_t(std::size_t)>& hash) {
  const std::size_t ranges = std::min(kRanges, count);
  for (std::size_t r = 0; r < ranges; ++r) {
    const std::size_t first = r * count / ranges;
    const std::size_t end = (r + 1) * count / ranges;
    std::uint64_t all = 0;
    for (std::size_t i = first; i < end; ++i) all = mix(all, hash(i));
    description.add_contents(name(first), name(end - 1), all);
  }
}

void describe_some_contents(Description& description, FileSystem& files, const ListedFiles& list,
                            const std::function<std::string(std::size_t)>& name) {
  const std::size_t most = description.most_files();
  const auto nth = [&](std::size_t i) { return i * list.count / most; };
  const std::vector<std::uint64_t> hashes =
      hash_contents(files, {.count = most,
                            .path = [&](std::size_t i) { return list.path(nth(i)); },
                            .info = [&](std::size_t i) { return list.info(nth(i)); }});
  describe_contents(
      description, most, [&](std::size_t i) { return name(nth(i)); },
      [&](std::size_t i) { return hashes[i]; });
}

}  // namespace penstock
