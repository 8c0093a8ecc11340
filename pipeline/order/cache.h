// Elements kept in memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "pipeline/order/node.h"

namespace penstock {

class CacheFileSource;

/// What a cache has kept: complete, or nothing yet. Shared by the passes and epochs of a run.
struct CacheStore {
  explicit CacheStore(const StagePlace& first_place) : place(first_place) {}

  /// Where the cache stands first: all places keep what is drawn there, whoever fills it.
  const StagePlace place;
  std::mutex mutex;
  // In memory.
  bool complete = false;  // guarded by mutex
  std::vector<std::pair<std::uint64_t, Ref<Payload>>>
      elements;  // ordinals and values; constant once complete
  // In a file.
  std::shared_ptr<const CacheFileSource> file;  // once it is complete; guarded by mutex
  bool filling = false;                         // by one of the passes; guarded by mutex
};

/// What the caches of one nested dataset keep, for as long as it is open. Used by one thread at a
/// time.
struct NestedCaches {
  std::map<const Node*, std::shared_ptr<CacheStore>> stores;
};

/// The first pass that is read to its end (or to the known cardinality) fills the cache; later
/// passes and epochs replay it, with random numbers of their own. What is kept is always what the
/// first epoch draws, so that a run that is restored keeps the same. A pass that stops early keeps
/// nothing and says so through the log. Errors are not kept. The memory counts against the byte
/// budget.
NodePtr make_cache(NodePtr input);

}  // namespace penstock
