// The contract of work that other processes do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <penstock/workers.h>

#include "pipeline/engine/make/group_runner.h"
#include "pipeline/engine/segment/segment_owner.h"

namespace penstock {

class Retry;
class RunState;
class StageServices;
class StepBack;
class Waker;
struct SlotLayout;

/// A segment's description for its runner.
struct SegmentWork {
  SegmentOwner owner;
  std::uint64_t key;  ///< keys random numbers
  /// The layout of the batches that receive the results. If null, groups keep their results.
  const SlotLayout* layout;
  GroupSizer& sizer;
};

/// The other processes that work for a run. Thread-safe.
class RemoteWork {
 public:
  virtual ~RemoteWork() = default;
  /// Returns a runner for a segment's groups. It makes them in other processes, or here by the
  /// runner that `local` makes for the given listener. The result, and the objects that `segment`
  /// names, are destroyed before this object.
  using MakeLocal = std::function<std::unique_ptr<GroupRunner>(GroupListener&)>;
  virtual std::unique_ptr<GroupRunner> runner(const SegmentWork& segment, const MakeLocal& local,
                                              GroupListener& listener) = 0;
  struct Figures {
    std::vector<WorkerStats> workers;
    std::uint64_t groups_of_workers = 0;
    std::uint64_t groups_made_here = 0;
  };
  virtual Figures figures() const = 0;
};

/// The parts of a run that work of other processes uses.
struct RemoteServices {
  const RunState& state;
  Waker& waker;
  Retry& retry;
  StageServices& stages;
  const StepBack& step_back;
};

/// Connects to the workers that the run's options name. REQUIRES: the options name workers, and
/// what `services` refers to outlives the result.
using OpenWorkers = std::unique_ptr<RemoteWork>(const RemoteServices& services);

}  // namespace penstock
