#include <penstock/pipelines.h>

#include "pipelines/build.h"
#include "pipelines/pipeline_spec.h"
#include "pipelines/toml.h"
#include "pipelines/usage_error.h"

namespace penstock {

Pipeline parse_pipeline(const std::string& toml, const std::string& name) try {
  const tool::PipelineSpec spec = tool::pipeline_from_toml(toml, name);
  const RunOptions options = tool::run_options(spec, RunOptions().seed);
  tool::choose_for_process(spec.run);
  tool::Built built = tool::open_pipeline(spec);
  if (built.on_device)
    throw tool::UsageError("on_device needs a device, but a pipeline opened here has none",
                           printable(name));
  return {std::move(built.dataset), options};
} catch (const tool::UsageError& error) {
  throw Error(ErrorCode::invalid_argument, error.what());
}

Pipeline read_pipeline(const std::string& path) try {
  return parse_pipeline(tool::read_toml_text(path, "the pipeline"), path);
} catch (const tool::UsageError& error) {
  throw Error(ErrorCode::invalid_argument, error.what());
}

}  // namespace penstock
