#include <penstock/dataset.h>

#include <cmath>

#include "pipeline/stages/batch.h"
#include "pipeline/stages/bucket.h"
#include "pipeline/stages/cache.h"
#include "pipeline/stages/concatenate.h"
#include "pipeline/stages/file_cache.h"
#include "pipeline/stages/filter.h"
#include "pipeline/stages/group_by_window.h"
#include "pipeline/stages/ignore_errors.h"
#include "pipeline/stages/interleave.h"
#include "pipeline/stages/keep.h"
#include "pipeline/stages/map.h"
#include "pipeline/stages/mix.h"
#include "pipeline/stages/pack.h"
#include "pipeline/stages/pad.h"
#include "pipeline/stages/prefetch.h"
#include "pipeline/stages/ragged_batch.h"
#include "pipeline/stages/rebatch.h"
#include "pipeline/stages/repeat.h"
#include "pipeline/stages/resample.h"
#include "pipeline/stages/scan.h"
#include "pipeline/stages/select.h"
#include "pipeline/stages/shard.h"
#include "pipeline/stages/shuffle.h"
#include "pipeline/stages/source.h"
#include "pipeline/stages/take.h"
#include "pipeline/stages/unbatch.h"
#include "pipeline/stages/unique.h"
#include "pipeline/stages/window.h"
#include "pipeline/stages/zip.h"

namespace penstock {
namespace {

std::vector<NodePtr> nodes_of(const std::vector<Dataset>& datasets) {
  std::vector<NodePtr> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(dataset.node());
  return nodes;
}

}  // namespace

Dataset::Dataset(SourcePtr source) : node_(make_source(std::move(source))) {}

Dataset Dataset::shard(std::int64_t count, std::int64_t index, ShardOptions options) const {
  return Dataset(make_shard(node(), count, index, options));
}
Dataset Dataset::shuffle(ShuffleOptions options) const {
  return Dataset(make_shuffle(node(), options));
}
Dataset Dataset::repeat(std::int64_t count) const {
  return Dataset(make_repeat(node(), count));
}
Dataset Dataset::take(std::int64_t count) const {
  return Dataset(make_take(node(), count));
}
Dataset Dataset::skip(std::int64_t count) const {
  return Dataset(make_skip(node(), count));
}
Dataset Dataset::take_while(Predicate predicate) const {
  return Dataset(make_take_while(node(), make_predicate_op(std::move(predicate), "take_while")));
}
Dataset Dataset::filter(Predicate predicate, std::string name) const {
  return Dataset(make_filter(node(), make_predicate_op(std::move(predicate), std::move(name))));
}
Dataset Dataset::enumerate(std::int64_t start, std::string component) const {
  return Dataset(make_enumerate(node(), start, std::move(component)));
}
Dataset Dataset::concatenate(const Dataset& other) const {
  return Dataset(make_concatenate(node(), other.node()));
}
Dataset Dataset::interleave(FlatMapFn fn, Spec output, InterleaveOptions options) const {
  return Dataset(make_interleave(node(), std::move(fn), std::move(output), options));
}
Dataset Dataset::flat_map(FlatMapFn fn, Spec output) const {
  return interleave(std::move(fn), std::move(output), {.cycle = 1, .block = 1});
}
Dataset Dataset::unbatch() const {
  return Dataset(make_unbatch(node()));
}
Dataset Dataset::rebatch(std::int64_t size, BatchOptions options) const {
  return rebatch(std::vector<std::int64_t>{size}, options);
}
Dataset Dataset::rebatch(std::vector<std::int64_t> sizes, BatchOptions options) const {
  return Dataset(make_rebatch(node(), std::move(sizes), options));
}
Dataset Dataset::unique(std::vector<std::string> components) const {
  return Dataset(make_unique_stage(node(), std::move(components)));
}
Dataset Dataset::scan(Element initial, ScanFn fn, ScanOptions options) const {
  return Dataset(make_scan(node(), std::move(initial), std::move(fn), std::move(options)));
}
Dataset Dataset::rejection_resample(KeyFn class_of, std::vector<double> target,
                                    ResampleOptions options) const {
  return Dataset(
      make_rejection_resample(node(), std::move(class_of), std::move(target), std::move(options)));
}
Dataset Dataset::ignore_errors(bool log_warning) const {
  return Dataset(make_ignore_errors(node(), log_warning));
}
Dataset Dataset::window(std::int64_t size, WindowOptions options) const {
  return Dataset(make_window(node(), size, options));
}
Dataset Dataset::window(std::int64_t size, WindowFn each, WindowOptions options) const {
  if (!each) bad_stage("window", "no function was given");
  return Dataset(make_window(node(), size, options, std::move(each)));
}
Dataset Dataset::group_by_window(KeyFn key, GroupOptions options) const {
  return Dataset(make_group_by_window(node(), std::move(key), std::move(options)));
}
Dataset Dataset::cache() const {
  return Dataset(make_cache(node()));
}
Dataset Dataset::cache(std::string file) const {
  return Dataset(make_file_cache(node(), std::move(file), false));
}
Dataset Dataset::snapshot(std::string folder) const {
  return Dataset(make_file_cache(node(), std::move(folder), true));
}
Dataset Dataset::pad_batches() const {
  return Dataset(make_pad_batches(node()));
}
Dataset Dataset::prefetch(std::int64_t count) const {
  return Dataset(make_prefetch(node(), count));
}
Dataset Dataset::map_op(WorkOpPtr op, bool ordered) const {
  return Dataset(make_map(node(), std::move(op), ordered));
}
Dataset Dataset::keep(std::vector<std::string> components) const {
  return Dataset(make_keep(node(), std::move(components)));
}
Dataset Dataset::drop(std::vector<std::string> components) const {
  return Dataset(make_drop(node(), std::move(components)));
}
Dataset Dataset::batch(std::int64_t size, BatchOptions options) const {
  return Dataset(make_batch(node(), size, options));
}
Dataset Dataset::padded_batch(std::int64_t size, PaddedBatchOptions options) const {
  return Dataset(make_padded_batch(node(), size, std::move(options)));
}
Dataset Dataset::bucket_by_length(BucketOptions options) const {
  return Dataset(make_bucket_by_length(node(), std::move(options)));
}
Dataset Dataset::pack(PackOptions options) const {
  return Dataset(make_pack(node(), std::move(options)));
}
Dataset Dataset::ragged_batch(std::int64_t size, BatchOptions options) const {
  return Dataset(make_ragged_batch(node(), size, options));
}
Dataset Dataset::select(std::vector<std::uint64_t> indices) const {
  return Dataset(make_select(node(), std::move(indices)));
}

std::pair<Dataset, Dataset> Dataset::split_at(double share, std::uint64_t seed) const {
  const auto size = node()->indexed_size();
  if (!size) bad_stage("split_at", node()->name() + " has no index to split by");
  if (!(share >= 0 && share <= 1)) bad_stage("split_at", "share must be in [0, 1]");
  const auto first = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(*size)));
  const NodePtr drawn = make_shuffle(node(), {.buffer = 0, .seed = seed, .reshuffle = false});
  return {Dataset(make_slice(drawn, 0, first)), Dataset(make_slice(drawn, first, *size - first))};
}

const Spec& Dataset::spec() const {
  return node()->spec();
}
std::int64_t Dataset::cardinality() const {
  return node()->cardinality();
}

Dataset zip(const std::vector<Dataset>& inputs) {
  return Dataset(make_zip(nodes_of(inputs)));
}
Dataset sample_from(const std::vector<Dataset>& inputs, std::vector<double> weights,
                    MixOptions options) {
  return Dataset(make_sample_from(nodes_of(inputs), MixWeights(std::move(weights)), true, options));
}
Dataset sample_from(const std::vector<Dataset>& inputs, const MixWeights& weights,
                    MixOptions options) {
  return Dataset(make_sample_from(nodes_of(inputs), weights, false, options));
}
Dataset choose_from(const std::vector<Dataset>& inputs, const Dataset& choices,
                    bool stop_on_empty) {
  return Dataset(make_choose_from(nodes_of(inputs), choices.node(), stop_on_empty));
}

}  // namespace penstock
