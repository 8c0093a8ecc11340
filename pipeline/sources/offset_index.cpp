#include "pipeline/sources/offset_index.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include <penstock/log.h>

#include "pipeline/io/crc32c.h"
#include "pipeline/sources/index_file.h"

namespace penstock {
namespace {

ShardIndex scan_or_load(const Shards& shards, std::size_t shard, const IndexOptions& options,
                        const ScanShard& scan) {
  const std::string path = index_path(shards.path(shard), shards.info(shard), options);
  if (!path.empty()) {
    if (auto index = load_index(path, shards.info(shard), options.kind)) return std::move(*index);
  }
  ShardIndex index = scan(*shards.open(shard).file);
  index.entries.shrink_to_fit();
  if (!path.empty() && index.lasting && !save_index(path, shards.info(shard), options.kind, index))
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

/// Calls `work` for 0 … count - 1 from several threads, this one among them. Throws what the lowest
/// number threw, after all are done.
void for_each_parallel(std::size_t count, std::size_t threads,
                       const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      while (helpers.size() + 1 < std::min(threads, count)) helpers.emplace_back(run);
    } catch (const std::system_error&) {
      log_once(LogLevel::warning, "index threads", "can't start more threads to scan shards");
    }
    run();
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

std::size_t default_threads() {
  return std::clamp<std::size_t>(2 * std::thread::hardware_concurrency(), 2, 16);
}

}  // namespace

OffsetIndex::OffsetIndex(const Shards& shards, const IndexOptions& options, const ScanShard& scan)
    : shards_(shards.size()), checksums_(shards.size()), first_(shards.size() + 1) {
  const std::size_t threads =
      options.threads > 0 ? static_cast<std::size_t>(options.threads) : default_threads();
  for_each_parallel(shards.size(), threads, [&](std::size_t shard) {
    shards_[shard] = scan_or_load(shards, shard, options, scan);
    checksums_[shard] = checksum_of(shards_[shard]);
  });
  for (std::size_t i = 0; i < shards_.size(); ++i)
    first_[i + 1] = first_[i] + shards_[i].entries.size();
}

OffsetIndex::Position OffsetIndex::find(std::uint64_t index) const noexcept {
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  const auto shard = static_cast<std::size_t>(next - first_.begin()) - 1;
  return {shard, index - first_[shard]};
}

const IndexFault* OffsetIndex::fault(Position at) const noexcept {
  const std::vector<IndexFault>& faults = shards_[at.shard].faults;
  if (faults.empty()) return nullptr;
  const auto found = std::lower_bound(
      faults.begin(), faults.end(), at.record,
      [](const IndexFault& fault, std::uint64_t record) { return fault.record < record; });
  return found != faults.end() && found->record == at.record ? &*found : nullptr;
}

}  // namespace penstock
