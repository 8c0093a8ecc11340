// parse_example, see <penstock/sources.h>.
#include <algorithm>
#include <optional>

#include <penstock/sources.h>
#include <penstock/work.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/sources/feature.h"

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
  ParseExample(std::vector<FeatureSpec> features, std::string component, const Limits& limits)
      : features_(std::move(features)), component_(std::move(component)), limits_(limits) {
    if (features_.empty())
      throw Error(ErrorCode::invalid_argument, "parse_example: no features are asked for");
    for (FeatureSpec& feature : features_) {
      example::check(feature);
      if (feature.component.empty()) feature.component = feature.key;
    }
    for (std::size_t i = 0; i < features_.size(); ++i) by_key_.push_back(i);
    std::sort(by_key_.begin(), by_key_.end(),
              [&](std::size_t a, std::size_t b) { return features_[a].key < features_[b].key; });
  }

  std::string name() const override { return "parse_example"; }

  void describe(Description& description) const override {
    description.add("component", component_);
    for (const FeatureSpec& feature : features_) {
      std::string text = std::string(name_of(feature.dtype)) + ' ' + feature.shape.to_string();
      if (feature.component != feature.key) text += " as " + feature.component;
      if (feature.default_value) text += " default " + text_of(*feature.default_value);
      description.add(feature.key, text);
    }
  }

  Spec infer(const Spec& input) const override {
    const std::size_t at = input.require(component_);
    if (input[at].dtype != DType::bytes || input[at].shape != Shape())
      throw Error(ErrorCode::invalid_argument,
                  "parse_example: component '" + component_ + "' must be bytes [], not " +
                      std::string(name_of(input[at].dtype)) + ' ' + input[at].shape.to_string());
    std::vector<ComponentSpec> components;
    for (std::size_t i = 0; i < input.size(); ++i) {
      if (i != at) {
        components.push_back(input[i]);
        continue;
      }
      for (const FeatureSpec& feature : features_)
        components.push_back({feature.component, feature.dtype, feature.shape});
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

  Plan plan_for(const Names* input) const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (const Plan& plan : plans_) {
      if (plan.input == input) return plan;
    }
    const int at = input == nullptr ? -1 : input->find(component_);
    if (at < 0)
      throw Error(ErrorCode::not_found, "parse_example: no component '" + component_ + "'");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < input->size(); ++i) {
      if (static_cast<int>(i) != at) {
        names.push_back((*input)[i]);
        continue;
      }
      for (const FeatureSpec& feature : features_) names.push_back(feature.component);
    }
    plans_.push_back({input, Names::intern(names), static_cast<std::size_t>(at)});
    return plans_.back();
  }

  struct Scratch {
    Element in;  // its memory serves the next example
    std::vector<std::optional<std::span<const std::byte>>> found;
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
      output.append(value_of(features_[i], found[i], record.owner(), row, context));
    }
    for (std::size_t i = plan.at + 1; i < input.size(); ++i) output.append(input[i]);
  }

  const std::string& key_at(std::size_t i) const { return features_[by_key_[i]].key; }

  std::size_t lower_bound(std::string_view key) const {
    const auto found = std::lower_bound(
        by_key_.begin(), by_key_.end(), key,
        [this](std::size_t i, std::string_view k) { return features_[i].key < k; });
    return static_cast<std::size_t>(found - by_key_.begin());
  }

  Tensor value_of(const FeatureSpec& feature,
                  const std::optional<std::span<const std::byte>>& bytes, const BufferPtr& owner,
                  std::byte* row, WorkContext& context) const try {
    if (bytes) {
      const example::Values values(*bytes, limits_.max_nesting);
      if (values.present()) return values.tensor(feature, owner, row, context);
    }
    if (feature.default_value) return *feature.default_value;
    throw Error(ErrorCode::data_loss, "it is missing and has no default");
  } catch (const Error& error) {
    throw Error(error.code(), "feature '" + feature.key + "': " + error.cause());
  }

  // Constant after construction.
  std::vector<FeatureSpec> features_;
  std::vector<std::size_t> by_key_;  // positions in features_, by key
  const std::string component_;
  const Limits limits_;

  mutable Mutex mutex_;
  mutable std::vector<Plan> plans_ GUARDED_BY(mutex_);
};

}  // namespace

WorkOpPtr parse_example(std::vector<FeatureSpec> features, std::string component, Limits limits) {
  return std::make_shared<ParseExample>(std::move(features), std::move(component), limits);
}

}  // namespace penstock
