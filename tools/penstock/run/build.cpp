#include "tools/penstock/run/build.h"

#include <algorithm>
#include <map>
#include <utility>

#include <penstock/image_codec.h>

#include "tools/penstock/graph/image_chain.h"
#include "tools/penstock/graph/parameters.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/usage_error.h"

namespace penstock::tool {
namespace {

JpegBackend jpeg_backend(const Settings& run) {
  static const std::map<std::string, JpegBackend> kBackends{
      {"auto", JpegBackend::automatic},
      {"own", JpegBackend::own},
      {"libjpeg-turbo", JpegBackend::libjpeg_turbo}};
  return kBackends.at(run.get("jpeg_backend", std::string("auto")));
}

Built with_stages(Dataset dataset, const std::vector<Settings>& stages) {
  Built built{std::move(dataset)};
  ImageChain chain;
  const auto close_chain = [&] {
    const std::optional<ImageOps> ops = chain.take();
    if (!ops) return;
    built.dataset = built.dataset.map(*ops);
    if (ops->is_on_device()) built.on_device = ops;
  };
  for (const Settings& stage : stages) {
    if (stage.kind().is_image()) {
      stage.kind().extend(chain, stage, built.dataset.spec());
      continue;
    }
    close_chain();
    built.dataset = stage.kind().add(built.dataset, stage);
  }
  close_chain();
  return built;
}

}  // namespace

Built build_for_devices(const PipelineSpec& spec) {
  choose_jpeg_backend(jpeg_backend(spec.run));
  const FileSystemPtr files = make_file_system(spec.run.get("io", std::string("pread")));
  return with_stages(spec.source->kind().open(*spec.source, files), spec.stages);
}

bool reads_image_records(const PipelineSpec& spec) {
  return spec.source->kind().packed_images && !spec.source->has("record_bytes");
}

bool leaves_work_to_device(const PipelineSpec& spec) {
  return std::any_of(spec.stages.begin(), spec.stages.end(), [](const Settings& stage) {
    return stage.kind().role == StageRole::decode && stage.get("on_device", false);
  });
}

Dataset build(const PipelineSpec& spec) {
  return build_for_devices(spec).dataset;
}

Dataset add_stages(Dataset dataset, const std::vector<Settings>& stages) {
  return with_stages(std::move(dataset), stages).dataset;
}

RunOptions run_options(const PipelineSpec& spec, std::uint64_t seed) {
  const Settings& run = spec.run;
  RunOptions options;
  options.seed = run.has("seed") ? static_cast<std::uint64_t>(integer(run, "seed", 0)) : seed;
  options.epochs = static_cast<std::uint64_t>(integer(run, "epochs", 1));
  options.threads = static_cast<int>(integer(run, "threads", 0));
  options.memory_bytes = static_cast<std::uint64_t>(integer(run, "memory", 0));
  options.slots = static_cast<int>(integer(run, "slots", 0));
  options.io_threads = static_cast<int>(integer(run, "io_threads", 0));
  const std::string on_error = run.get("on_error", std::string("fail"));
  const bool skip = on_error == "skip";
  if (skip) options.on_error = OnError::skip;
  if (on_error == "retry") options.on_error = OnError::retry;
  options.retries = static_cast<int>(integer(run, "retries", -1));
  options.quarantine = run.get("quarantine", std::string());
  if (!options.quarantine.empty() && !skip)
    throw UsageError("needs on_error = skip (--on-error skip)", "quarantine");
  if (run.has("max_errors")) {
    if (!skip) throw UsageError("needs on_error = skip (--on-error skip)", "max_errors");
    const ErrorBudget budget = parse_error_budget(run.get("max_errors", std::string()));
    options.max_errors = budget.count;
    options.max_error_share = budget.share;
  }
  return options;
}

}  // namespace penstock::tool
