// The stage for which a segment makes elements.
#pragma once

#include <string>

#include "pipeline/engine/make/group.h"
#include "pipeline/engine/make/read_pace.h"
#include "pipeline/engine/memory/held_bytes.h"
#include "pipeline/engine/segment/group_sizer.h"
#include "pipeline/stage/counters.h"

namespace penstock {

class Node;

/// The findings about a stage's groups in all epochs so far, and memory that they left.
struct LearntOfStage {
  GroupSizes sizes;
  ReadPace reads;
  SpareItems items;
};

/// The parts of the bound (docs/budget.md) that belong to one segment: the bytes that its stages
/// hold, those that a group takes, and those of a batch's texts.
struct HeldOfSegment {
  explicit HeldOfSegment(HeldBytesOfRun& run)
      : stages(run.make()), group(run.make()), texts(run.make()) {}
  HeldBytes& stages;
  HeldBytes& group;
  HeldBytes& texts;
};

/// A stage of a run, as its segments know it. Its references are valid as long as the run.
struct SegmentOwner {
  const Node& node;
  std::string label;  ///< its name in reports and errors
  StageCounters& counters;
  LearntOfStage& learnt;
  HeldOfSegment& held;
};

}  // namespace penstock
