#include "tools/penstock/run/build.h"

#include "tools/penstock/shards/find_source.h"

namespace penstock::tool {

Built build_for_devices(const PipelineSpec& spec) {
  choose_for_process(spec.run);
  check_content(*spec.source);
  return open_pipeline(spec);
}

Dataset build(const PipelineSpec& spec) {
  return build_for_devices(spec).dataset;
}

}  // namespace penstock::tool
