#include "pipeline/sources/offset_index.h"

#include <algorithm>

#include <penstock/crc32c.h>
#include <penstock/log.h>

#include "pipeline/sources/index_file.h"
#include "pipeline/sources/index_place.h"
#include "pipeline/sources/parallel.h"

namespace penstock {
namespace {

ShardIndex scan_or_load(const Shards& shards, std::size_t shard, const IndexOptions& options,
                        const ScanShard& scan) {
  const FileInfo& info = shards.info(shard);
  const std::string path = index_path(shards.path(shard), info, options);
  for (const std::string& kept : {path, index_beside(shards.path(shard), info, options)}) {
    if (kept.empty()) continue;
    if (auto index = load_index(kept, info, options)) return std::move(*index);
  }
  ShardIndex index;
  for (int tries = 1;; ++tries) {
    index = scan(*shards.open(shard).file);
    const bool for_the_moment = std::ranges::any_of(
        index.faults, [](const IndexFault& fault) { return fault.code == ErrorCode::unavailable; });
    if (!for_the_moment || !try_again(tries)) break;
  }
  index.entries.shrink_to_fit();
  const bool lasting = index.lasting && std::ranges::all_of(index.faults, &IndexFault::lasting);
  if (path.empty() || !lasting) return index;
  const bool has_folder = !options.folder.empty() || make_index_folder(path);
  if (!has_folder || !save_index(path, info, options.kind, index))
    log_once(LogLevel::info, "index not kept",
             "can't write " + path + ": shards will be scanned again next time");
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
    : shards_(shards.size()), checksums_(shards.size()), first_(shards.size() + 1) {
  for_each_parallel(
      shards.size(),
      [&](std::size_t shard) {
        shards_[shard] = scan_or_load(shards, shard, options, scan);
        checksums_[shard] = checksum_of(shards_[shard]);
      },
      options.threads);
  for (std::size_t i = 0; i < shards_.size(); ++i)
    first_[i + 1] = first_[i] + shards_[i].entries.size();
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
