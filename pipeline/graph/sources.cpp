// Functions for datasets of sources, in addition to the sources themselves.
#include <penstock/sources.h>

#include "pipeline/order/node.h"
#include "pipeline/sources/synthetic.h"

namespace penstock {
namespace {

std::vector<std::string> class_names(const Node& node) {
  if (const SourcePtr source = node.source()) return source->class_names();
  for (const NodePtr& input : node.inputs()) {
    std::vector<std::string> names = class_names(*input);
    if (!names.empty()) return names;
  }
  return {};
}

}  // namespace

std::vector<std::string> class_names(const Dataset& dataset) {
  return class_names(*dataset.node());
}

Dataset synthetic(SyntheticOptions options) {
  const Dataset records(make_synthetic_source(options));
  const WorkOpPtr cost = make_synthetic_cost_op(options);
  return cost ? records.map_op(cost) : records;
}

}  // namespace penstock
