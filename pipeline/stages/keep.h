// Stages that keep or drop components.
#pragma once

#include <string>
#include <vector>

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage that keeps only these components, in this order. It joins the program of the
/// items, so the stage in front of it writes straight into the rows of a batch behind it. Throws
/// Error{invalid_argument} for an unknown component, for one that is named twice, and for an empty
/// list.
NodePtr make_keep(NodePtr input, std::vector<std::string> components);
/// Makes a stage that keeps all components but these.
NodePtr make_drop(NodePtr input, std::vector<std::string> components);

}  // namespace penstock
