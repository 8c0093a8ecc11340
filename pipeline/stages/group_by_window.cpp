#include "pipeline/stages/group_by_window.h"

#include <map>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/grouping.h"
#include "pipeline/stages/interleave.h"
#include "pipeline/stages/window.h"

namespace penstock {
namespace {

class ByKey final : public Grouping {
 public:
  explicit ByKey(const GroupOptions& options) : options_(options) {}

  Status add(const ElementRef& item, std::uint64_t number, std::deque<Gathered>& done) override {
    const std::int64_t key = item.payload->key;
    auto found = groups_.find(key);
    if (found == groups_.end()) {
      std::int64_t size = options_.size;
      try {
        if (options_.size_of) size = options_.size_of(key);
      } catch (...) {
        return status_from_current_exception();
      }
      if (size <= 0) {
        return {ErrorCode::invalid_argument, "the window of key " + std::to_string(key) +
                                                 " must have a positive size, not " +
                                                 std::to_string(size)};
      }
      found = groups_.try_emplace(key).first;
      found->second.size = static_cast<std::size_t>(size);
      found->second.gathered.key = key;
    }
    Gathered& gathered = found->second.gathered;
    gathered.items.push_back(item);
    gathered.numbers.push_back(number);
    if (gathered.items.size() == found->second.size) {
      done.push_back(std::move(gathered));
      groups_.erase(found);
    }
    return {};
  }

  void finish(std::deque<Gathered>& done) override {
    for (auto& [key, group] : groups_) done.push_back(std::move(group.gathered));
    groups_.clear();
  }

 private:
  struct Group {
    std::size_t size = 0;
    Gathered gathered;
  };
  const GroupOptions& options_;
  std::map<std::int64_t, Group> groups_;
};

class GroupByWindowNode final : public Node {
 public:
  GroupByWindowNode(const NodePtr& source, Spec output, WorkOpPtr key, GroupOptions options,
                    NodePtr made)
      : Node({source}, std::move(output), source->cardinality() == 0 ? 0 : kUnknown),
        key_(std::move(key)),
        options_(std::move(options)),
        made_(std::move(made)) {}

  std::string name() const override { return "group_by_window"; }
  Resume find_resume() const override { return Resume::work; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("op", key_->name());
    if (options_.size > 0) description.add("size", options_.size);
    if (made_) describe_inner(*made_, description);
  }
  std::optional<BatchRows> find_batch_rows() const override {
    if (options_.reduce) return made_ ? rows_in_any_order(*made_) : std::nullopt;
    return BatchRows{.full = options_.size, .most = options_.size, .fewer = BatchRows::Fewer::any};
  }
  Execution execution() const override { return Execution::held; }
  Pending find_pending() const override { return Pending::fallible; }
  bool wants_values(std::size_t) const override { return true; }  // with their keys
  bool seeded() const override { return options_.reduce != nullptr; }

  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(make_stack_op(), run.counters(*this), run.stage_name(*this));
  }
  std::optional<Program::Step> step(RunServices& run) const override {
    return key_step(*this, run, key_, options_.reduce != nullptr);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    const ProgramPtr stack = own_first_program(context, *this);
    auto windows = [this, stack](const OpenContext& here) -> OrderIteratorPtr {
      return std::make_unique<GroupingIterator>(*this, here, std::make_unique<ByKey>(options_),
                                                stack);
    };
    if (!options_.reduce) return windows(context);
    const auto expand = [this](const ElementRef& window) {
      return options_.reduce(window.payload->key,
                             Dataset(make_items(input().spec(), window.payload->children)));
    };
    return open_interleave(windows, expand, spec(), {.cycle = 1}, context,
                           context.run.stage_name(*this));
  }

 private:
  WorkOpPtr key_;
  GroupOptions options_;
  NodePtr made_;  // of key 0 and an empty window
};

}  // namespace

NodePtr make_group_by_window(NodePtr input, KeyFn key, GroupOptions options) {
  constexpr const char* kStage = "group_by_window";
  if (!key) bad_stage(kStage, "no key function was given");
  if (!options.size_of && options.size <= 0) {
    bad_stage(kStage, "size must be positive, not " + std::to_string(options.size));
  }
  if (options.size_of && options.size != 0) bad_stage(kStage, "give size or size_of, not both");
  NodePtr made;
  Spec output = batched(input->spec(), Shape::kUnknown);
  if (options.reduce && options.output) {
    output = *options.output;
  } else if (options.reduce) {
    made = options.reduce(0, Dataset(make_no_items(input->spec()))).node();
    output = made->spec();
  }
  WorkOpPtr op = make_key_op(std::move(key), options.name);
  return std::make_shared<GroupByWindowNode>(input, std::move(output), std::move(op),
                                             std::move(options), std::move(made));
}

}  // namespace penstock
