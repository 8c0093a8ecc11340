// A stage that keeps its input's elements in memory.
#pragma once

#include <map>
#include <memory>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/stage/run_services.h"
#include "pipeline/stages/kept_elements.h"

namespace penstock {

class CacheFileSource;

/// The elements that a cache has kept: all of them, or none yet. The passes and epochs of a run
/// share it.
struct CacheStore {
  explicit CacheStore(const StagePlace& first_place) : place(first_place) {}

  /// The first place of the cache in the run. Every place keeps the elements drawn here, whichever
  /// of them fills it.
  const StagePlace place;
  SlowMutex mutex;  // held while a pass looks for the file, and begins to write it
  // For a cache in memory. Null until it is complete.
  std::shared_ptr<const KeptElements> elements GUARDED_BY(mutex);
  bool filled_by_first GUARDED_BY(mutex) = false;  // by the first pass at the first place
  // True if the run goes back, and perhaps to where the cache was empty.
  bool undecided GUARDED_BY(mutex) = false;
  // For a cache in a file. Set once the file is complete.
  std::shared_ptr<const CacheFileSource> file GUARDED_BY(mutex);
  // True while one of the passes fills the file.
  bool filling GUARDED_BY(mutex) = false;
};

/// The stores of one nested dataset's caches, for as long as the dataset is open. Used by one
/// thread at a time.
struct NestedCaches {
  std::map<const Node*, std::shared_ptr<CacheStore>> stores;
};

/// Returns a stage that keeps its input's elements. The first pass that is read to its end (or to
/// the known cardinality) fills the cache. Later passes and epochs replay it, with random numbers
/// of their own. The cache always keeps the elements that the first epoch draws, so a restored run
/// keeps the same ones. A pass that stops early keeps nothing and logs that. Errors are not kept.
/// The memory counts against the byte budget.
NodePtr make_cache(NodePtr input);

}  // namespace penstock
