// All stages of the command line and of TOML except image ops: their parameters, and the functions
// that add them.
#include <utility>

#include <penstock/batch_ops.h>
#include <penstock/dataset.h>

#include "pipelines/identity.h"
#include "pipelines/kinds.h"
#include "pipelines/numbers.h"
#include "pipelines/parameters.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

Parameter size_of_batch() {
  return {"size", ValueType::integer, "elements", true, 1, 1e9};
}

Parameter components() {
  return {"components", ValueType::list, "their names", true};
}

Parameter drop_remainder() {
  return flag("drop_remainder", "drop the last if it is short");
}

Parameter alpha() {
  return {"alpha", ValueType::number, "of Beta(alpha, alpha) (default 1)", false, 1e-3, 1e6};
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

Dataset add_keep(const Dataset& in, const Settings& stage) {
  return in.keep(stage.get("components", List()));
}

Dataset add_drop(const Dataset& in, const Settings& stage) {
  return in.drop(stage.get("components", List()));
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

/// Returns the integers of a list such as "16:32:64".
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

std::vector<Kind> order_kinds() {
  return {
      {"shard",
       "keep the elements whose index modulo COUNT is INDEX",
       {count("count", "parts"), count("index", "the part to keep", true, 0),
        flag("contiguous", "keep a contiguous block instead")},
       add_shard},
      {"shuffle",
       "shuffle; without BUFFER perfectly, in O(1) memory (the source must have an index)",
       {count("buffer", "elements buffered, as in tf.data", false),
        count("seed", "seed of its order (default: that of the run)", false, 0),
        flag("reshuffle", "a new order at each epoch (default true)")},
       add_shuffle,
       {.role = StageRole::shuffle}},
      {"repeat",
       "go through the data COUNT times; without COUNT, forever",
       {count("count", "times", false, 0)},
       add_repeat},
      {"take", "the first COUNT elements", {count("count", "elements", true, 0)}, add_take},
      {"skip", "all but the first COUNT elements", {count("count", "elements", true, 0)}, add_skip},
      {"cache",
       "keep the elements of the first pass, in memory or in FILE, and replay them",
       {{"file", ValueType::text, "for later runs of this pipeline too"}},
       add_cache,
       {.output = "file"}},
      {"snapshot",
       "like cache, in a file in FOLDER, one for each pipeline",
       {{"folder", ValueType::text, "created if missing", true}},
       add_snapshot},
      {"unique",
       "drop elements equal to an earlier one, in all components or in COMPONENT",
       {{"component", ValueType::text, "the component to compare"}},
       add_unique},
      {"ignore_errors", "skip elements that failed, and continue", {}, add_ignore_errors},
      {"enumerate",
       "add an i64 component that numbers the elements",
       {{"start", ValueType::integer, "first number (default 0)"},
        {"component", ValueType::text, "its name (default index)"}},
       add_enumerate},
  };
}

std::vector<Kind> work_kinds() {
  return {
      {"identity",
       "call a no-op function that the compiler can't inline",
       {},
       add_identity,
       {.role = StageRole::element}},
      {"keep",
       "keep these components, in this order",
       {components()},
       add_keep,
       {.role = StageRole::element}},
      {"drop",
       "keep all components but these",
       {components()},
       add_drop,
       {.role = StageRole::element}},
      {"batch",
       "combine SIZE elements into a batch",
       {size_of_batch(), drop_remainder()},
       add_batch,
       {.role = StageRole::batch}},
      {"padded_batch",
       "combine SIZE elements into a batch, padded to the largest",
       {size_of_batch(), drop_remainder()},
       add_padded_batch,
       {.role = StageRole::batch}},
      {"ragged_batch",
       "combine SIZE elements into a batch without padding: values, and where each row begins",
       {size_of_batch(), drop_remainder()},
       add_ragged_batch},
      {"bucket_by_length",
       "batch elements of similar length, padded; by sizes or by tokens",
       {{"component", ValueType::text, "the component whose length counts (default: the first)"},
        {"bounds", ValueType::text, "bounds between the buckets: \"16:32:64\""},
        {"sizes", ValueType::text, "elements in a batch of each bucket: \"64:32:16:8\""},
        count("tokens", "instead of sizes: limit on elements times the longest", false),
        flag("pad_to_boundary", "pad to the bucket's bound minus 1"),
        drop_remainder()},
       add_bucket_by_length},
      {"pack",
       "pack sequences into rows of LENGTH, first fit",
       {count("length", "length of a row"),
        count("open", "rows filled at a time (default 16)", false)},
       add_pack},
      {"window",
       "combine SIZE neighbours into a sliding window",
       {size_of_batch(),
        count("shift", "distance from one window to the next (default: the size)", false),
        count("stride", "distance between elements of a window (default 1)", false),
        drop_remainder()},
       add_window},
      {"rebatch", "regroup batches to SIZE rows", {size_of_batch(), drop_remainder()}, add_rebatch},
      {"mixup",
       "mix the rows of a batch, and their labels of CLASSES classes",
       {count("classes", "labels become shares of this many classes"), alpha()},
       add_mixup},
      {"cutmix",
       "copy a box between the rows of a batch, and mix their labels of CLASSES classes",
       {count("classes", "labels become shares of this many classes"), alpha(),
        text("layout", "default chw", {"chw", "hwc"})},
       add_cutmix},
      {"unbatch", "split batches into elements", {}, add_unbatch},
      {"pad_batches",
       "pad to batches of equal size, and as many in every shard",
       {},
       add_pad_batches},
      {"prefetch",
       "prepare COUNT batches ahead; without COUNT, the engine chooses",
       {count("count", "batches", false)},
       add_prefetch},
  };
}

}  // namespace

const std::vector<Kind>& stage_kinds() {
  static const std::vector<Kind> all = [] {
    std::vector<Kind> kinds = order_kinds();
    for (const std::vector<Kind>& more : {image_kinds(), work_kinds()})
      kinds.insert(kinds.end(), more.begin(), more.end());
    return kinds;
  }();
  return all;
}

}  // namespace penstock::tool
