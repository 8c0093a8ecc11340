// Functions for datasets of sources, in addition to the sources themselves.
#include <penstock/sources.h>

#include "pipeline/sources/synthetic.h"
#include "pipeline/stage/node.h"

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

std::string label_extension(const Node& node) {
  if (const SourcePtr source = node.source()) return source->label_extension();
  for (const NodePtr& input : node.inputs()) {
    std::string extension = label_extension(*input);
    if (!extension.empty()) return extension;
  }
  return {};
}

}  // namespace

std::string label_extension(const Dataset& dataset) {
  return label_extension(*dataset.node());
}

std::vector<std::string> class_names(const Dataset& dataset) {
  return class_names(*dataset.node());
}

Dataset synthetic(SyntheticOptions options) {
  const Dataset records(make_synthetic_source(options));
  const WorkOpPtr cost = make_synthetic_cost_op(options);
  return cost ? records.map_op(cost) : records;
}

}  // namespace penstock
