#include "towers/servers/kept_feeds.h"

#include <algorithm>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

constexpr std::size_t kFeedsKept = 8;

}  // namespace

void KeptFeeds::add(const KeptFeed& feed) {
  if (feed.pushes.size() != feeds_.front().pushes.size())
    throw Error(ErrorCode::invalid_argument, "a position of " + std::to_string(feed.pushes.size()) +
                                                 " replicas, not of " +
                                                 std::to_string(feeds_.front().pushes.size()));
  if (feed.pushes == feeds_.back().pushes) {  // repeated, or the end of an epoch
    feeds_.back() = feed;
    return;
  }
  feeds_.push_back(feed);
  if (feeds_.size() > kFeedsKept) feeds_.erase(feeds_.begin() + 1);
}

const KeptFeed& KeptFeeds::at(std::span<const std::uint64_t> pushes) const {
  for (auto feed = feeds_.rbegin(); feed != feeds_.rend(); ++feed)
    if (std::ranges::equal(feed->pushes, pushes, std::less_equal())) return *feed;
  return feeds_.front();
}

}  // namespace penstock::towers
