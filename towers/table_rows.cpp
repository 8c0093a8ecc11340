#include <penstock/towers/table_rows.h>

#include <algorithm>
#include <iterator>

namespace penstock::towers {

std::span<const std::int64_t> TableRows::read(std::span<const std::int64_t> ids,
                                              std::int64_t count) {
  merged_.clear();
  std::ranges::copy_if(ids, std::back_inserter(merged_),
                       [&](std::int64_t id) { return id >= 0 && id < count; });
  std::ranges::sort(merged_);
  merged_.erase(std::unique(merged_.begin(), merged_.end()), merged_.end());
  fresh_.clear();
  std::ranges::set_difference(merged_, rows_, std::back_inserter(fresh_));
  if (fresh_.empty()) return {};
  fetch_(fresh_);
  merged_.clear();
  std::ranges::merge(rows_, fresh_, std::back_inserter(merged_));
  std::swap(rows_, merged_);
  return fresh_;
}

}  // namespace penstock::towers
