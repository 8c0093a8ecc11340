#include "pipeline/stages/bucket.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pipeline/stage/support.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/grouping.h"

namespace penstock {
namespace {

constexpr const char* kBucketStage = "bucket_by_length";

class ByLength final : public Grouping {
 public:
  explicit ByLength(const BucketOptions& options)
      : options_(options), buckets_(options.bounds.size() + 1) {}

  Status add(const ElementRef& item, std::uint64_t number, std::deque<Gathered>& done) override {
    const std::int64_t length = item.payload->key;
    if (length < 0) {
      return {ErrorCode::mismatch, "the length is " + std::to_string(length)};
    }
    const std::vector<std::int64_t>& bounds = options_.bounds;
    const auto index = static_cast<std::size_t>(
        std::upper_bound(bounds.begin(), bounds.end(), length) - bounds.begin());
    std::int64_t width = length;
    if (options_.pad_to_boundary) {
      if (index == bounds.size()) {
        return {ErrorCode::out_of_range,
                "the length " + std::to_string(length) + " is not below the last bound, " +
                    std::to_string(bounds.back()) + ", as pad_to_boundary needs it"};
      }
      width = bounds[index] - 1;
    }
    if (options_.tokens > 0 && width > options_.tokens) {
      return {ErrorCode::out_of_range, "the element alone takes " + std::to_string(width) + " of " +
                                           std::to_string(options_.tokens) + " tokens"};
    }
    Bucket& bucket = buckets_[index];
    if (!has_room(bucket, index, std::max(bucket.width, width))) close(bucket, index, done);
    bucket.width = std::max(bucket.width, width);
    bucket.gathered.items.push_back(item);
    bucket.gathered.numbers.push_back(number);
    if (!has_room(bucket, index, bucket.width)) close(bucket, index, done);
    return {};
  }

  void finish(std::deque<Gathered>& done) override {
    if (options_.drop_remainder) return;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (options_.towers > 1) {
        divide(i, done);
      } else if (!buckets_[i].gathered.items.empty()) {
        close(buckets_[i], i, done);
      }
    }
  }

  void gave(std::int64_t key) override {
    if (left_ == 0) left_ = static_cast<std::size_t>(options_.towers);
    --left_;
    given_ = static_cast<std::size_t>(key);
  }
  void save(StateWriter& state) const override {
    if (options_.towers == 1) return;
    state.put(left_);
    state.put(given_);
  }
  void restore(StateReader& state) override {
    if (options_.towers == 1) return;
    left_ = state.get();
    given_ = state.get();
    if (left_ >= static_cast<std::uint64_t>(options_.towers) || given_ >= buckets_.size())
      throw Error(ErrorCode::data_loss, "the state is damaged");
  }

 private:
  struct Bucket {
    Gathered gathered;
    std::int64_t width = 0;
    std::vector<Gathered> round;  // complete batches that wait for others of their round
  };

  /// Returns the number of batches that this bucket gives together: what is left of a round that
  /// was begun, or a whole one.
  std::size_t round_of(std::size_t index) const {
    return left_ > 0 && index == given_ ? left_ : static_cast<std::size_t>(options_.towers);
  }

  /// Divides the rest of a bucket into a round of short batches. Continues in the same way if some
  /// of them were given before.
  void divide(std::size_t index, std::deque<Gathered>& done) {
    Bucket bucket = std::exchange(buckets_[index], Bucket());
    Gathered rest;
    bucket.round.push_back(std::move(bucket.gathered));
    for (Gathered& batch : bucket.round) {
      std::ranges::move(batch.items, std::back_inserter(rest.items));
      std::ranges::copy(batch.numbers, std::back_inserter(rest.numbers));
    }
    const std::size_t count = round_of(index);
    if (rest.items.size() < count) return;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t end = begin + (rest.items.size() - begin) / (count - k) +
                              ((rest.items.size() - begin) % (count - k) > 0 ? 1 : 0);
      Gathered& batch = done.emplace_back();
      batch.key = static_cast<std::int64_t>(index);
      for (; begin < end; ++begin) {
        batch.items.push_back(std::move(rest.items[begin]));
        batch.numbers.push_back(rest.numbers[begin]);
      }
    }
  }

  /// True if one more element fits and all rows have that width.
  bool has_room(const Bucket& bucket, std::size_t index, std::int64_t width) const {
    const auto rows = static_cast<std::int64_t>(bucket.gathered.items.size());
    if (options_.tokens == 0) return rows < options_.sizes[index];
    return width == 0 ? rows < options_.tokens : rows + 1 <= options_.tokens / width;
  }

  void close(Bucket& bucket, std::size_t index, std::deque<Gathered>& done) {
    bucket.gathered.key = static_cast<std::int64_t>(index);
    bucket.round.push_back(std::exchange(bucket.gathered, Gathered()));
    bucket.width = 0;
    if (bucket.round.size() < round_of(index)) return;
    std::ranges::move(bucket.round, std::back_inserter(done));
    bucket.round.clear();
  }

  const BucketOptions& options_;
  std::vector<Bucket> buckets_;
  // Of the round that is being given: how many batches of it remain, and its bucket.
  std::uint64_t left_ = 0;
  std::uint64_t given_ = 0;
};

/// An op for each bucket. The item's index selects it.
class BucketOp final : public GatherOp {
 public:
  explicit BucketOp(std::vector<std::shared_ptr<const GatherOp>> ops) : ops_(std::move(ops)) {}
  void gather(std::span<const Element* const> parts, WorkItem& out,
              WorkContext& context) const override {
    const std::size_t bucket = std::exchange(out.index, parts.size());
    ops_[bucket]->gather(parts, out, context);
  }
  bool pads() const noexcept override { return ops_.front()->pads(); }

 private:
  std::vector<std::shared_ptr<const GatherOp>> ops_;
};

std::shared_ptr<const GatherOp> make_bucket_op(const BucketOptions& options) {
  std::vector<std::shared_ptr<const GatherOp>> ops;
  for (std::size_t i = 0; i <= options.bounds.size(); ++i) {
    std::vector<Shape> shapes = options.shapes;
    for (Shape& shape : shapes) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (!options.pad_to_boundary || i == options.bounds.size() || shape[axis] >= 0) continue;
        shape = shape.with(axis, options.bounds[i] - 1);
      }
    }
    ops.push_back(options.no_padding ? make_stack_op()
                                     : make_pad_op(std::move(shapes), options.values));
  }
  return std::make_shared<BucketOp>(std::move(ops));
}

Spec bucketed(const Spec& spec, const BucketOptions& options) {
  std::vector<ComponentSpec> components(spec.begin(), spec.end());
  for (std::size_t i = 0; i < options.shapes.size(); ++i) components[i].shape = options.shapes[i];
  return batched(Spec(std::move(components)), Shape::kUnknown);
}

class BucketNode final : public Node {
 public:
  BucketNode(const NodePtr& source, WorkOpPtr length, BucketOptions options)
      : Node({source}, bucketed(source->spec(), options),
             source->cardinality() == 0 ? 0 : kUnknown),
        length_(std::move(length)),
        options_(std::move(options)),
        op_(make_bucket_op(options_)) {}

  std::string name() const override { return kBucketStage; }
  Resume find_resume() const override { return Resume::work; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("op", length_->name());
    for (const std::int64_t bound : options_.bounds) description.add("bound", bound);
    for (const std::int64_t size : options_.sizes) description.add("size", size);
    if (options_.tokens > 0) description.add("tokens", options_.tokens);
    for (const Shape& shape : options_.shapes) description.add("shape", shape.to_string());
    for (const double value : options_.values) description.add("value", value);
    description.add("pad_to_boundary", options_.pad_to_boundary);
    description.add("no_padding", options_.no_padding);
    description.add("drop_remainder", options_.drop_remainder);
    if (options_.towers > 1) description.add("towers", std::int64_t{options_.towers});
  }
  std::optional<BatchRows> find_batch_rows() const override {
    BatchRows rows{
        .most = options_.tokens, .fewer = BatchRows::Fewer::any, .round = options_.towers};
    if (options_.tokens > 0) return rows;
    rows.most = std::ranges::max(options_.sizes);
    if (std::ranges::min(options_.sizes) == rows.most) rows.full = rows.most;
    return rows;
  }
  Execution execution() const override { return Execution::held; }
  Pending find_pending() const override { return Pending::fallible; }
  bool wants_values(std::size_t) const override { return true; }  // with their keys

  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(op_, run.counters(*this), run.stage_name(*this));
  }
  std::optional<Program::Step> step(RunServices& run) const override {
    return key_step(*this, run, length_, false);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<GroupingIterator>(*this, context, std::make_unique<ByLength>(options_),
                                              own_first_program(context, *this));
  }

 private:
  WorkOpPtr length_;
  BucketOptions options_;
  std::shared_ptr<const GatherOp> op_;
};

void check_buckets(const BucketOptions& options) {
  for (std::size_t i = 0; i < options.bounds.size(); ++i) {
    if (options.bounds[i] <= (i > 0 ? options.bounds[i - 1] : 0)) {
      bad_stage(kBucketStage, "bounds must be positive and increasing, but " +
                                  std::to_string(options.bounds[i]) + " is not");
    }
  }
  if (options.tokens < 0) {
    bad_stage(kBucketStage, "tokens must be positive, not " + std::to_string(options.tokens));
  }
  if (options.towers < 1) {
    bad_stage(kBucketStage, "towers must be positive, not " + std::to_string(options.towers));
  }
  if (options.tokens > 0 && options.towers > 1) {
    bad_stage(kBucketStage,
              "batches of tokens can't be divided among towers at the end: give sizes");
  }
  if (options.tokens > 0 && !options.sizes.empty()) {
    bad_stage(kBucketStage, "give sizes or tokens, not both");
  }
  if (options.tokens == 0 && options.sizes.size() != options.bounds.size() + 1) {
    bad_stage(kBucketStage, std::to_string(options.bounds.size()) + " bounds make " +
                                std::to_string(options.bounds.size() + 1) + " buckets, but " +
                                std::to_string(options.sizes.size()) + " sizes were given");
  }
  for (const std::int64_t size : options.sizes) {
    if (size <= 0) bad_stage(kBucketStage, "a size must be positive, not " + std::to_string(size));
  }
  if (options.pad_to_boundary && options.bounds.empty()) {
    bad_stage(kBucketStage, "pad_to_boundary needs bounds");
  }
  if (options.no_padding &&
      (options.pad_to_boundary || !options.shapes.empty() || !options.values.empty())) {
    bad_stage(kBucketStage, "no_padding goes with no padding option");
  }
}

}  // namespace

NodePtr make_bucket_by_length(NodePtr input, BucketOptions options) {
  check_buckets(options);
  if (!options.no_padding) {
    PaddedBatchOptions padding =
        complete_padding(kBucketStage, input->spec(), {options.shapes, options.values});
    options.shapes = std::move(padding.shapes);
    options.values = std::move(padding.values);
  }
  WorkOpPtr op = make_key_op(options.length ? options.length : length_of(), options.name);
  return std::make_shared<BucketNode>(input, std::move(op), std::move(options));
}

KeyFn length_of(std::string component) {
  return [component = std::move(component)](const Element& element) -> std::int64_t {
    if (component.empty() && element.empty()) return 0;
    const Tensor& tensor = component.empty() ? element[0] : element[component];
    if (tensor.rank() > 0) return tensor.dim(0);
    if (tensor.dtype() == DType::bytes) return static_cast<std::int64_t>(tensor.bytes_at().size());
    throw Error(ErrorCode::mismatch, "a scalar has no length");
  };
}

}  // namespace penstock
