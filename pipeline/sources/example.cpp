// parse_example, see <penstock/sources.h>.
#include <algorithm>
#include <optional>

#include <penstock/internal/thread_annotations.h>
#include <penstock/sources.h>
#include <penstock/work.h>

#include "pipeline/sources/feature_list.h"

namespace penstock {
namespace {

std::string text_of(const Tensor& value) {
  std::string text = value.shape().to_string();
  for (std::int64_t i = 0; i < value.volume(); ++i) {
    text += i > 0 ? ", " : " ";
    if (value.dtype() == DType::bytes) {
      text += value.bytes_at(i);
    } else if (value.dtype() == DType::f32) {
      text += std::to_string(value.values<float>()[static_cast<std::size_t>(i)]);
    } else {
      text += std::to_string(value.values<std::int64_t>()[static_cast<std::size_t>(i)]);
    }
  }
  return text;
}

class ParseExample final : public WorkOp {
 public:
  ParseExample(std::vector<FeatureSpec> features, std::vector<SequenceSpec> sequences,
               std::string component, const Limits& limits)
      : features_(std::move(features)),
        sequences_(std::move(sequences)),
        component_(std::move(component)),
        limits_(limits) {
    if (features_.empty() && sequences_.empty())
      throw Error(ErrorCode::invalid_argument, name() + ": no features are asked for");
    for (FeatureSpec& feature : features_) {
      example::check(feature);
      if (feature.component.empty()) feature.component = feature.key;
    }
    for (SequenceSpec& sequence : sequences_) {
      example::check(sequence);
      if (sequence.component.empty()) sequence.component = sequence.key;
    }
    for (std::size_t i = 0; i < features_.size(); ++i) by_key_.push_back(i);
    std::sort(by_key_.begin(), by_key_.end(),
              [&](std::size_t a, std::size_t b) { return features_[a].key < features_[b].key; });
  }

  std::string name() const override {
    return sequences_.empty() ? "parse_example" : "parse_sequence_example";
  }

  void describe(Description& description) const override {
    description.add("component", component_);
    for (const FeatureSpec& feature : features_) {
      std::string text = std::string(name_of(feature.dtype)) + ' ' + feature.shape.to_string();
      if (feature.component != feature.key) text += " as " + feature.component;
      if (feature.default_value) text += " default " + text_of(*feature.default_value);
      description.add(feature.key, text);
    }
    for (const SequenceSpec& sequence : sequences_) {
      std::string text = "steps of " + std::string(name_of(sequence.dtype)) + ' ' +
                         sequence.step.value_or(Shape({-1})).to_string();
      if (sequence.component != sequence.key) text += " as " + sequence.component;
      if (sequence.allow_missing) text += " or missing";
      description.add(sequence.key, text);
    }
  }

  Spec infer(const Spec& input) const override {
    const std::size_t at = input.require(component_);
    if (input[at].dtype != DType::bytes || input[at].shape != Shape())
      throw Error(ErrorCode::invalid_argument,
                  name() + ": component '" + component_ + "' must be bytes [], not " +
                      std::string(name_of(input[at].dtype)) + ' ' + input[at].shape.to_string());
    std::vector<ComponentSpec> components;
    for (std::size_t i = 0; i < input.size(); ++i) {
      if (i != at) {
        components.push_back(input[i]);
        continue;
      }
      for (ComponentSpec& made : made_components()) components.push_back(std::move(made));
    }
    return Spec(std::move(components));
  }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    Names const* input = nullptr;
    Plan plan;
    Scratch scratch;
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      if (item.element.names() != input) {
        input = item.element.names();
        plan = plan_for(input);
      }
      try {
        parse(item, plan, scratch, context);
      } catch (const Error& error) {
        item.status = error;
      }
    }
  }

  std::size_t preferred_group() const override { return 32; }

 private:
  struct Plan {
    const Names* input = nullptr;
    const Names* output = nullptr;
    std::size_t at = 0;  // of the component
  };

  /// Returns the components that replace the record.
  std::vector<ComponentSpec> made_components() const {
    std::vector<ComponentSpec> made;
    for (const FeatureSpec& feature : features_)
      made.push_back({feature.component, feature.dtype, feature.shape});
    for (const SequenceSpec& sequence : sequences_) example::add_components(sequence, made);
    return made;
  }

  Plan plan_for(const Names* input) const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (const Plan& plan : plans_) {
      if (plan.input == input) return plan;
    }
    const int at = input == nullptr ? -1 : input->find(component_);
    if (at < 0) throw Error(ErrorCode::not_found, name() + ": no component '" + component_ + "'");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < input->size(); ++i) {
      if (static_cast<int>(i) != at) {
        names.push_back((*input)[i]);
        continue;
      }
      for (ComponentSpec& made : made_components()) names.push_back(std::move(made.name));
    }
    plans_.push_back({input, Names::intern(names), static_cast<std::size_t>(at)});
    return plans_.back();
  }

  struct Scratch {
    Element in;  // its memory serves the next example
    std::vector<std::optional<std::span<const std::byte>>> found;
    std::vector<std::optional<std::span<const std::byte>>> lists;  // of sequences_
    example::SequenceReader sequences{};
  };

  void parse(WorkItem& item, const Plan& plan, Scratch& scratch, WorkContext& context) const {
    std::swap(scratch.in, item.element);
    const Element& input = scratch.in;
    const Tensor& record = input[plan.at];
    if (record.dtype() != DType::bytes)
      throw Error(ErrorCode::invalid_argument, "component '" + component_ + "' is not bytes");
    auto& found = scratch.found;
    found.assign(features_.size(), std::nullopt);
    std::size_t next = 0;  // in by_key_; if keys are in order, no search is needed
    example::for_each_feature(std::as_bytes(std::span(record.bytes_at())), limits_.max_nesting,
                              [&](std::string_view key, std::span<const std::byte> value) {
                                if (next == by_key_.size() || key_at(next) != key)
                                  next = lower_bound(key);
                                for (; next < by_key_.size() && key_at(next) == key; ++next)
                                  found[by_key_[next]] = value;
                              });
    Element& output = item.element;
    output.start(plan.output);
    for (std::size_t i = 0; i < plan.at; ++i) output.append(input[i]);
    for (std::size_t i = 0; i < features_.size(); ++i) {
      std::byte* const row = item.row ? item.row.data(plan.at + i) : nullptr;
      output.append(value_of(features_[i], found[i], record, row, context));
    }
    if (!sequences_.empty()) read_sequences(record.bytes_at(), scratch, context, output);
    for (std::size_t i = plan.at + 1; i < input.size(); ++i) output.append(input[i]);
  }

  void read_sequences(std::string_view record, Scratch& scratch, WorkContext& context,
                      Element& output) const {
    scratch.lists.assign(sequences_.size(), std::nullopt);
    example::for_each_feature_list(std::as_bytes(std::span(record)), limits_.max_nesting,
                                   [&](std::string_view key, std::span<const std::byte> list) {
                                     for (std::size_t i = 0; i < sequences_.size(); ++i)
                                       if (sequences_[i].key == key) scratch.lists[i] = list;
                                   });
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      scratch.sequences.read(sequences_[i], scratch.lists[i], limits_.max_nesting, context, output);
  }

  const std::string& key_at(std::size_t i) const { return features_[by_key_[i]].key; }

  std::size_t lower_bound(std::string_view key) const {
    const auto found = std::lower_bound(
        by_key_.begin(), by_key_.end(), key,
        [this](std::size_t i, std::string_view k) { return features_[i].key < k; });
    return static_cast<std::size_t>(found - by_key_.begin());
  }

  Tensor value_of(const FeatureSpec& feature,
                  const std::optional<std::span<const std::byte>>& bytes, const Tensor& record,
                  std::byte* row, WorkContext& context) const try {
    if (bytes) {
      const example::Values values(*bytes, limits_.max_nesting);
      if (values.present()) return values.tensor(feature, record.owner(), row, context);
    }
    if (feature.default_value) return *feature.default_value;
    throw Error(ErrorCode::data_loss,
                example::missing_text(record.bytes_at(), feature.key, limits_.max_nesting));
  } catch (const Error& error) {
    throw Error(error.code(), "feature '" + feature.key + "': " + error.cause());
  }

  // Constant after construction.
  std::vector<FeatureSpec> features_;
  std::vector<SequenceSpec> sequences_;
  std::vector<std::size_t> by_key_;  // positions in features_, by key
  const std::string component_;
  const Limits limits_;

  mutable Mutex mutex_;
  mutable std::vector<Plan> plans_ GUARDED_BY(mutex_);
};

}  // namespace

WorkOpPtr parse_example(std::vector<FeatureSpec> features, std::string component, Limits limits) {
  return parse_sequence_example(std::move(features), {}, std::move(component), limits);
}

WorkOpPtr parse_sequence_example(std::vector<FeatureSpec> context,
                                 std::vector<SequenceSpec> sequences, std::string component,
                                 Limits limits) {
  return std::make_shared<ParseExample>(std::move(context), std::move(sequences),
                                        std::move(component), limits);
}

}  // namespace penstock
