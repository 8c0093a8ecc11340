#include "pipelines/build.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include <penstock/image_codec.h>
#include <penstock/simd.h>

#include "pipelines/image_chain.h"
#include "pipelines/kinds.h"
#include "pipelines/numbers.h"
#include "pipelines/parameters.h"
#include "pipelines/remote.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

WorkerOptions worker_options(const PipelineSpec& spec) {
  const Settings& run = spec.run;
  WorkerOptions workers;
  if (!run.has("workers")) {
    for (const char* of_workers :
         {"local_threads", "worker_timeout", "wire", "tls_cert", "tls_key", "tls_ca", "token_file"})
      if (run.has(of_workers)) throw UsageError("needs workers (--workers)", of_workers);
    return workers;
  }
  const std::string list = run.get("workers", std::string());
  if (list.starts_with("etcd://"))
    workers.addresses = {list};
  else
    workers.addresses = split(list, ',');
  workers.local_threads = static_cast<int>(integer(run, "local_threads", -1));
  workers.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * run.get("worker_timeout", 10.0)));
  workers.security = {.certificate = run.get("tls_cert", std::string()),
                      .key = run.get("tls_key", std::string()),
                      .authority = run.get("tls_ca", std::string()),
                      .token = {}};
  if (run.has("token_file"))
    workers.security.token = token_in(run.get("token_file", std::string()));
  const std::string wire = run.get("wire", std::string("none"));
  if (wire == "lz4") workers.wire = WorkerWire::lz4;
  workers.shared_memory = wire != "tcp";
  PipelineSpec graph = spec;
  graph.run = Settings(run_kind());
  workers.graph = to_toml(graph);
  return workers;
}

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

void choose_for_process(const Settings& run) {
  choose_jpeg_backend(jpeg_backend(run));
  choose_simd(run.get("simd", std::string("auto")));
  use_remote(run);
}

Built open_pipeline(const PipelineSpec& spec) {
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

Dataset build(const PipelineSpec& spec, const FileSystemPtr& files) {
  return with_stages(spec.source->kind().open(*spec.source, files), spec.stages).dataset;
}

std::string token_in(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  if (!std::getline(file, token) || token.empty())
    throw UsageError("no token on the first line of " + in_quotes(path), "--token-file");
  return token;
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
  options.trust_data = run.get("trust_data", false);
  options.workers = worker_options(spec);
  return options;
}

}  // namespace penstock::tool
