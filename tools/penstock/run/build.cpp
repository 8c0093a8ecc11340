#include "tools/penstock/run/build.h"

#include <algorithm>
#include <map>
#include <utility>

#include <penstock/batch_ops.h>
#include <penstock/image_codec.h>

#include "tools/penstock/run/identity.h"
#include "tools/penstock/run/image_chain.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"
#include "tools/penstock/support/usage_error.h"

namespace penstock::tool {
namespace {

std::int64_t integer(const Settings& settings, const char* name, std::int64_t fallback) {
  return settings.get(name, std::int64_t{fallback});
}

Dataset add_shard(const Dataset& in, const Settings& stage) {
  return in.shard(integer(stage, "count", 1), integer(stage, "index", 0),
                  {.contiguous = stage.get("contiguous", false)});
}

Dataset add_shuffle(const Dataset& in, const Settings& stage) {
  ShuffleOptions options;
  options.buffer = static_cast<std::uint64_t>(integer(stage, "buffer", 0));
  if (stage.has("seed")) options.seed = static_cast<std::uint64_t>(integer(stage, "seed", 0));
  options.reshuffle = stage.get("reshuffle", true);
  return in.shuffle(options);
}

Dataset add_repeat(const Dataset& in, const Settings& stage) {
  return in.repeat(integer(stage, "count", kInfinite));
}

Dataset add_take(const Dataset& in, const Settings& stage) {
  return in.take(integer(stage, "count", 0));
}

Dataset add_skip(const Dataset& in, const Settings& stage) {
  return in.skip(integer(stage, "count", 0));
}

Dataset add_cache(const Dataset& in, const Settings& stage) {
  return stage.has("file") ? in.cache(stage.get("file", std::string())) : in.cache();
}

Dataset add_snapshot(const Dataset& in, const Settings& stage) {
  return in.snapshot(stage.get("folder", std::string()));
}

Dataset add_unique(const Dataset& in, const Settings& stage) {
  if (!stage.has("component")) return in.unique();
  return in.unique({stage.get("component", std::string())});
}

Dataset add_ignore_errors(const Dataset& in, const Settings&) {
  return in.ignore_errors();
}

Dataset add_enumerate(const Dataset& in, const Settings& stage) {
  return in.enumerate(integer(stage, "start", 0), stage.get("component", std::string("index")));
}

Dataset add_identity(const Dataset& in, const Settings&) {
  MapOptions options;
  options.name = "identity";
  return in.map(identity, options);
}

Dataset add_batch(const Dataset& in, const Settings& stage) {
  return in.batch(integer(stage, "size", 1),
                  {.drop_remainder = stage.get("drop_remainder", false)});
}

Dataset add_padded_batch(const Dataset& in, const Settings& stage) {
  PaddedBatchOptions options;
  options.drop_remainder = stage.get("drop_remainder", false);
  return in.padded_batch(integer(stage, "size", 1), options);
}

BatchOptions batch_options(const Settings& stage) {
  return {.drop_remainder = stage.get("drop_remainder", false)};
}

Dataset add_ragged_batch(const Dataset& in, const Settings& stage) {
  return in.ragged_batch(integer(stage, "size", 1), batch_options(stage));
}

Dataset add_rebatch(const Dataset& in, const Settings& stage) {
  return in.rebatch(integer(stage, "size", 1), batch_options(stage));
}

Dataset add_window(const Dataset& in, const Settings& stage) {
  return in.window(integer(stage, "size", 1),
                   {.shift = integer(stage, "shift", 0),
                    .stride = integer(stage, "stride", 1),
                    .drop_remainder = stage.get("drop_remainder", false)});
}

/// "16:32:64".
std::vector<std::int64_t> integers(const Settings& stage, const char* name) {
  std::vector<std::int64_t> values;
  if (!stage.has(name)) return values;
  for (const std::string& part : split(stage.get(name, std::string()), ':')) {
    try {
      values.push_back(parse_integer(part));
    } catch (const UsageError& error) {
      throw error.at(name);
    }
  }
  return values;
}

Dataset add_bucket_by_length(const Dataset& in, const Settings& stage) {
  const std::string component = stage.get("component", std::string());
  BucketOptions options;
  options.length = length_of(component);
  options.name = "length_of " + (component.empty() ? "the first" : component);
  options.bounds = integers(stage, "bounds");
  options.sizes = integers(stage, "sizes");
  options.tokens = integer(stage, "tokens", 0);
  options.pad_to_boundary = stage.get("pad_to_boundary", false);
  options.drop_remainder = stage.get("drop_remainder", false);
  return in.bucket_by_length(options);
}

Dataset add_pack(const Dataset& in, const Settings& stage) {
  return in.pack({.length = integer(stage, "length", 1), .open = integer(stage, "open", 16)});
}

BatchMixOptions mix_options(const Settings& stage) {
  BatchMixOptions options;
  options.alpha = stage.get("alpha", 1.0);
  options.classes = integer(stage, "classes", 1);
  return options;
}

Dataset add_mixup(const Dataset& in, const Settings& stage) {
  return in.map_op(mixup(mix_options(stage)));
}

Dataset add_cutmix(const Dataset& in, const Settings& stage) {
  return in.map_op(cutmix(mix_options(stage), stage.get("layout", std::string("chw")) == "chw"));
}

Dataset add_unbatch(const Dataset& in, const Settings&) {
  return in.unbatch();
}

Dataset add_pad_batches(const Dataset& in, const Settings&) {
  return in.pad_batches();
}

Dataset add_prefetch(const Dataset& in, const Settings& stage) {
  return in.prefetch(integer(stage, "count", -1));
}

Dataset add_stage(const Dataset& in, const Settings& stage) {
  using Adder = Dataset (*)(const Dataset&, const Settings&);
  static const std::map<std::string, Adder> kAdders{{"shard", add_shard},
                                                    {"shuffle", add_shuffle},
                                                    {"repeat", add_repeat},
                                                    {"take", add_take},
                                                    {"skip", add_skip},
                                                    {"cache", add_cache},
                                                    {"snapshot", add_snapshot},
                                                    {"unique", add_unique},
                                                    {"ignore_errors", add_ignore_errors},
                                                    {"enumerate", add_enumerate},
                                                    {"identity", add_identity},
                                                    {"batch", add_batch},
                                                    {"padded_batch", add_padded_batch},
                                                    {"ragged_batch", add_ragged_batch},
                                                    {"bucket_by_length", add_bucket_by_length},
                                                    {"pack", add_pack},
                                                    {"window", add_window},
                                                    {"rebatch", add_rebatch},
                                                    {"mixup", add_mixup},
                                                    {"cutmix", add_cutmix},
                                                    {"unbatch", add_unbatch},
                                                    {"pad_batches", add_pad_batches},
                                                    {"prefetch", add_prefetch}};
  return kAdders.at(stage.kind().name)(in, stage);
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
      chain.add(stage, built.dataset.spec());
      continue;
    }
    close_chain();
    built.dataset = add_stage(built.dataset, stage);
  }
  close_chain();
  return built;
}

}  // namespace

Built build_for_devices(const PipelineSpec& spec) {
  choose_jpeg_backend(jpeg_backend(spec.run));
  const FileSystemPtr files = make_file_system(spec.run.get("io", std::string("pread")));
  return with_stages(build_source(*spec.source, files), spec.stages);
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
