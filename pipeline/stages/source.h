// The stage at the start of every graph: a source's records.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that gives references to the records of an indexed source, or the records of a
/// stream.
NodePtr make_source(SourcePtr source);

}  // namespace penstock
