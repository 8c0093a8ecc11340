#include "pipeline/sources/offset_index.h"

#include <algorithm>

#include <unistd.h>

#include <penstock/internal/crc32c.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>

#include "pipeline/sources/index_file.h"
#include "pipeline/sources/index_place.h"
#include "pipeline/sources/parallel.h"

namespace penstock {
namespace {

constexpr std::uint64_t kLookedAt = 16;  // records of a kept index

/// Where the index of a shard may be kept.
struct Places {
  std::string path{};    // to write it
  std::string beside{};  // to read it, too

  bool empty() const noexcept { return path.empty() && beside.empty(); }
};

/// Returns true unless a look at some records shows that the index is of other bytes.
bool fits(const ShardIndex& index, const Shards& shards, std::size_t shard,
          const IndexOptions& options) {
  const std::uint64_t count = index.entries.size();
  if (!options.is_record || count == 0 || is_remote(shards.path(shard))) return true;
  try {
    const std::shared_ptr<File> file = shards.open(shard).file;
    const std::uint64_t looks = std::min(kLookedAt, count);
    for (std::uint64_t i = 0; i < looks; ++i) {
      const std::uint64_t record = looks == 1 ? 0 : i * (count - 1) / (looks - 1);
      const bool faulty = std::ranges::any_of(
          index.faults, [record](const IndexFault& fault) { return fault.record == record; });
      if (!faulty && !options.is_record(*file, index.entries[record])) return false;
    }
  } catch (const Error&) {  // reading these records will say why
  }
  return true;
}

/// `kept` becomes the path of the index file that was read or written.
ShardIndex scan_or_load(const Shards& shards, std::size_t shard, const Places& places,
                        const IndexOptions& options, const ScanShard& scan, std::string& kept) {
  ShardContents contents{.size = shards.info(shard).size};
  if (!places.empty()) contents.hash = shards.contents()[shard];
  for (const std::string& place : {places.path, places.beside}) {
    if (place.empty()) continue;
    auto index = load_index(place, contents, options);
    if (!index || !fits(*index, shards, shard, options)) continue;
    kept = place;
    return std::move(*index);
  }
  ShardIndex index;
  for (int tries = 1;; ++tries) {
    index = scan(*shards.open(shard).file);
    const bool for_the_moment = std::ranges::any_of(
        index.faults, [](const IndexFault& fault) { return fault.code == ErrorCode::unavailable; });
    if (!for_the_moment || !try_again(shards.path(shard), tries)) break;
  }
  index.entries.shrink_to_fit();
  const std::string& path = places.path;
  const bool lasting = index.lasting && std::ranges::all_of(index.faults, &IndexFault::lasting);
  if (path.empty() || !lasting) return index;
  const bool has_folder = !options.folder.empty() || make_index_folder(path);
  if (has_folder && save_index(path, contents, options.kind, index)) {
    kept = path;
  } else {
    log_once(LogLevel::warning, "index not kept",
             "can't write " + path +
                 ": shards will be scanned again next time (index_folder or PENSTOCK_INDEX_DIR "
                 "names another folder, and - none)");
  }
  return index;
}

std::uint64_t checksum_of(const ShardIndex& index) {
  std::uint32_t crc = crc32c(std::as_bytes(std::span(index.entries)));
  for (const IndexFault& fault : index.faults)
    crc = crc32c(std::as_bytes(std::span(fault.cause)), crc);
  for (const std::string& note : index.notes) crc = crc32c(std::as_bytes(std::span(note)), crc);
  return (1ULL << 32) | crc;
}

}  // namespace

OffsetIndex::OffsetIndex(const Shards& shards, const IndexOptions& options, const ScanShard& scan)
    : shards_(shards.size()),
      kept_(shards.size()),
      checksums_(shards.size()),
      first_(shards.size() + 1) {
  std::vector<Places> places(shards.size());
  bool any = false;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    places[i] = {index_path(shards.path(i), shards.info(i), options),
                 index_beside(shards.path(i), shards.info(i), options)};
    any = any || !places[i].empty();
  }
  if (any) (void)shards.contents();  // all at once
  for_each_parallel(
      shards.size(),
      [&](std::size_t shard) {
        shards_[shard] = scan_or_load(shards, shard, places[shard], options, scan, kept_[shard]);
        checksums_[shard] = checksum_of(shards_[shard]);
      },
      options.threads);
  for (std::size_t i = 0; i < shards_.size(); ++i)
    first_[i + 1] = first_[i] + shards_[i].entries.size();
}

void OffsetIndex::distrust(std::size_t shard) const noexcept try {
  if (kept_[shard].empty() || is_remote(kept_[shard])) return;
  if (::unlink(kept_[shard].c_str()) == 0) {
    log(LogLevel::warning,
        "the index " + kept_[shard] + " does not fit the shard, which will be scanned next time");
  }
} catch (const std::exception&) {
}

OffsetIndex::Position OffsetIndex::find_behind(std::uint64_t index) const noexcept {
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  const auto shard = static_cast<std::size_t>(next - first_.begin()) - 1;
  return {shard, index - first_[shard]};
}

const IndexFault* OffsetIndex::find_fault(Position at) const noexcept {
  const std::vector<IndexFault>& faults = shards_[at.shard].faults;
  const auto found = std::lower_bound(
      faults.begin(), faults.end(), at.record,
      [](const IndexFault& fault, std::uint64_t record) { return fault.record < record; });
  return found != faults.end() && found->record == at.record ? &*found : nullptr;
}

}  // namespace penstock
