#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <penstock/limits.h>
#include <penstock/plan.h>

#include "pipeline/core/machine.h"
#include "pipeline/core/sizes.h"
#include "pipeline/engine/memory/slots.h"
#include "pipeline/engine/plan/guarantee.h"
#include "pipeline/stage/node.h"

namespace penstock {
namespace {

/// Returns the name of the stage with this number in errors and statistics.
std::string label_of(const std::string& name, std::size_t number, const Description& description) {
  std::string label = name + "[" + std::to_string(number) + "]";
  for (const auto& [key, value] : description.entries()) {
    if (key == "op" && value != name) label += " " + value;
  }
  return label;
}

std::uint64_t slot_bytes(const BatchInfo& batches) {
  const bool sized = batches.in_place || batches.element.is_static();
  return sized ? SlotLayout(batches.element, batches.rows).bytes : 0;
}

/// Returns the form in which a segment that ends in this stage gives its values.
PlannedSegment::Gives gives(const Node& node) {
  const Execution execution = node.execution();
  return execution == Execution::in_place    ? PlannedSegment::Gives::batches
         : execution == Execution::unordered ? PlannedSegment::Gives::unordered_values
                                             : PlannedSegment::Gives::values;
}

bool in_parallel(Execution execution) {
  return execution == Execution::references || execution == Execution::fused ||
         execution == Execution::unordered || execution == Execution::gathered ||
         execution == Execution::held || execution == Execution::in_place;
}

/// Returns the stage after which the rows no longer change.
const Node& deciding(const Node& root) {
  const std::optional<BatchRows> rows = root.batch_rows();
  const Node* node = &root;
  for (;;) {
    const Node* next = nullptr;
    for (const NodePtr& input : node->inputs()) {
      const std::optional<BatchRows> before = input->batch_rows();
      if (!rows && before) return *node;
      if (next == nullptr && before == rows) next = input.get();
    }
    if (next == nullptr) return rows ? *node : root;
    node = next;
  }
}

/// Returns the stage whose batches later stages pass on, and that can make them of other elements;
/// null if there is none.
const Node* making(const Node& root) {
  for (const Node* node = &root; node->inputs().size() == 1; node = node->inputs()[0].get()) {
    if (node->batched_over(node->inputs()[0])) return node;
  }
  return nullptr;
}

/// Returns the graph over one shard of the elements that go into batches. Null if a stage would
/// then give other rows; `refuses` is set to that stage.
NodePtr batches_of_shard(const Node& node, const WhichShard& shard, const Node*& refuses) {
  if (node.inputs().size() == 1) {
    const NodePtr& input = node.inputs()[0];
    if (node.relation() == Relation::same) return batches_of_shard(*input, shard, refuses);
    const Dataset part = Dataset(input).shard(static_cast<std::int64_t>(shard.count),
                                              static_cast<std::int64_t>(shard.index));
    if (NodePtr made = node.batched_over(part.node())) return made;
    if (input->batch_rows()) {
      NodePtr batches = batches_of_shard(*input, shard, refuses);
      if (!batches) return nullptr;
      if (NodePtr made = node.over(std::move(batches))) return made;
    }
  }
  refuses = &node;
  return nullptr;
}

std::string count_text(std::int64_t count) {
  if (count == kInfinite) return "infinite";
  if (count == kUnknown) return "unknown";
  return std::to_string(count);
}

std::string bytes_text(std::uint64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  if (bytes >= 1U << 20) {
    out << static_cast<double>(bytes) / (1 << 20) << " MiB";
  } else {
    out << static_cast<double>(bytes) / 1024 << " KiB";
  }
  return out.str();
}

/// Returns a few words for each value, in the order of the enumeration.
std::string_view text_of(Execution execution) {
  constexpr std::array<std::string_view, 11> kTexts{
      "references, read in parallel",
      "a stream, read on the order thread",
      "on positions, nothing is read",
      "on references",
      "values are made first, in parallel",
      "predicate parallel, verdicts in order",
      "parallel, fused with what follows",
      "parallel, results as they finish",
      "values held, then gathered in parallel, several at a time",
      "values gathered and copied once",
      "written in place into recycled slots"};
  return kTexts[static_cast<std::size_t>(execution)];
}

/// Prints a stage after its inputs, at each place where it is used.
void print_stage(std::ostream& out, const Plan& plan, const Node& node, int depth) {
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    print_stage(out, plan, *node.inputs()[i], depth + (i == 0 ? 0 : 1));
  }
  const PlannedStage& stage = *plan.find(node);
  out << std::string(static_cast<std::size_t>(2 * depth + 2), ' ') << stage.name
      << (stage.options.empty() ? "" : "(" + stage.options + ")") << "\n"
      << std::string(static_cast<std::size_t>(2 * depth + 6), ' ') << stage.spec.to_string() << ", "
      << count_text(stage.cardinality) << " elements; " << text_of(stage.execution)
      << "; resumes by " << name_of(stage.resume) << "\n";
}

/// Returns the first `most` bytes, without cutting a UTF-8 character.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

/// Returns the options without those that say nothing to a reader: empty ones, and checksums.
std::string telling(const std::string& options) {
  std::string kept;
  for (std::size_t begin = 0; begin < options.size();) {
    const std::size_t end = std::min(options.find(", ", begin), options.size());
    const std::string option = options.substr(begin, end - begin);
    if (!option.ends_with('=') && !option.starts_with("checksum="))
      kept += (kept.empty() ? "" : ", ") + option;
    begin = end + 2;
  }
  return kept;
}

struct Line {
  std::string stage;
  std::string makes;  // the output, as far as it differs from the input
};

void add_lines(const Plan& plan, const Node& node, int depth, std::vector<Line>& lines) {
  constexpr std::size_t kMostOptions = 60;
  for (std::size_t i = 0; i < node.inputs().size(); ++i)
    add_lines(plan, *node.inputs()[i], depth + (i == 0 ? 0 : 1), lines);
  const PlannedStage& stage = *plan.find(node);
  const PlannedStage* const input =
      node.inputs().empty() ? nullptr : plan.find(*node.inputs().front());
  Line line{std::string(static_cast<std::size_t>(2 * depth + 2), ' ') + stage.name, ""};
  const std::string options = telling(stage.options);
  if (!options.empty()) line.stage += "(" + shortened(options, kMostOptions) + ")";
  if (input == nullptr || !(input->spec == stage.spec)) line.makes = stage.spec.to_string();
  if (input == nullptr || input->cardinality != stage.cardinality) {
    line.makes += (line.makes.empty() ? "" : "  ") + count_text(stage.cardinality) +
                  (stage.batches ? " batch" : " element") +
                  (stage.cardinality == 1 ? ""
                   : stage.batches        ? "es"
                                          : "s");
  }
  lines.push_back(std::move(line));
}

void print_advice(std::ostream& out, const std::vector<PlannedStage>& stages) {
  bool advised = false;
  for (const PlannedStage& stage : stages) {
    if (stage.advice.empty()) continue;
    if (!std::exchange(advised, true)) out << "advice:\n";
    out << "  " << stage.name << ": " << stage.advice << "\n";
  }
}

/// Returns the text as Graphviz reads it between quotes.
std::string dot_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out;
}

}  // namespace

void Plan::add(const Node& node, std::int64_t prefetch, int depth) {
  // A dataset that is its own second input is opened twice, and so is what it is made of.
  if (++places_ > kMostPlaces)
    throw Error(ErrorCode::invalid_argument, "a run would open more than " +
                                                 std::to_string(kMostPlaces) +
                                                 " stages, each as often as it is used (places)");
  const std::optional<BatchInfo> batches = node.batches();
  const std::int64_t own = node.prefetch_depth();
  const std::int64_t below = batches ? -1 : own > 0 ? own : prefetch;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    add(*node.inputs()[i], below, depth + (i == 0 ? 0 : 1));
  }
  const auto [place, fresh] = index_.try_emplace(&node, stages_.size());
  if (!fresh) {
    ++stages_[place->second].uses;
    return;
  }
  Description description;
  node.describe(description);
  PlannedStage stage;
  stage.name = node.name();
  stage.label = label_of(stage.name, stages_.size(), description);
  stage.options = description.to_string();
  stage.spec = node.spec();
  stage.cardinality = node.cardinality();
  stage.indexed_size = node.indexed_size();
  stage.source = node.source();
  stage.execution = node.execution();
  stage.resume = node.resume();
  stage.batches = batches;
  if (batches) stage.batches->slot_bytes = slot_bytes(*batches);
  stage.prefetch = prefetch;
  stage.depth = depth;
  stage.advice = node.advice();
  stage.node = &node;
  resume_ = std::max(resume_, stage.resume);
  sharded_ = sharded_ || node.shard().has_value();
  stages_.push_back(std::move(stage));
}

// Adds the segment that ends in `last` and whose values are made for `owner`. Returns its number.
std::size_t Plan::add_segment(const Node& last, const Node& owner) {
  PlannedSegment segment;
  segment.owner = find(owner)->label;
  if (&last == &owner) segment.gives = gives(last);
  collect(last, owner, segment);
  segments_.push_back(std::move(segment));
  return segments_.size() - 1;
}

void Plan::collect(const Node& node, const Node& owner, PlannedSegment& segment) {
  if (&node != &owner && gives(node) != PlannedSegment::Gives::values) {
    segment.in_front.push_back(add_segment(node, node));
    return;
  }
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (node.wants_values(i)) {
      segment.in_front.push_back(add_segment(*node.inputs()[i], node));
    } else {
      collect(*node.inputs()[i], owner, segment);
    }
  }
  const PlannedStage& stage = *find(node);
  (in_parallel(stage.execution) ? segment.program : segment.order).push_back(stage.label);
}

const PlannedStage* Plan::find(const Node& node) const noexcept {
  const auto found = index_.find(&node);
  return found != index_.end() ? &stages_[found->second] : nullptr;
}

// Slots leave an eighth for groups in flight. Two groups of each thread, and as many as are about
// to begin, take half of the budget.
BudgetShares::BudgetShares(std::uint64_t all, int threads)
    : slots(all / 8 * 7),
      kept(all / 4 * 3),
      group(all / (8 + 4 * static_cast<std::uint64_t>(threads))),
      free_for_more(all / 2),
      messages(all / 4) {}

Plan compile(const Dataset& dataset, const RunOptions& options) {
  Plan plan;
  plan.root_ = dataset.node();
  const Node& root = *plan.root_;
  plan.add(root, -1, 0);
  // A limit above the largest possible allocation would not limit anything.
  plan.memory_limit_ = std::min<std::uint64_t>(
      options.memory_bytes > 0 ? options.memory_bytes : default_memory_bytes(), PTRDIFF_MAX);
  plan.threads_ = options.threads > 0 ? options.threads : usable_cpus();
  plan.shares_ = BudgetShares(plan.memory_limit_, plan.threads_);
  plan.seed_ = options.seed;
  for (const PlannedStage& stage : plan.stages_) {
    if (!stage.batches || !stage.batches->in_place) continue;
    plan.least_memory_ = saturating_sum(plan.least_memory_,
                                        saturating_product(stage.uses, stage.batches->slot_bytes));
  }
  const Node* end = &root;  // later stages do not take part in making values
  while (end->relation() == Relation::same) end = end->inputs()[0].get();
  const bool ends_itself = gives(*end) != PlannedSegment::Gives::values;
  plan.add_segment(ends_itself ? *end : root, ends_itself ? *end : root);
  const Node* last = &root;
  while (!last->batches() && last->relation() == Relation::same) last = last->inputs()[0].get();
  plan.batch_stage_ = plan.index_.at(last);
  plan.batches_ = plan.batch_stage().batches;
  plan.rows_ = root.batch_rows();
  plan.rows_stage_ = plan.index_.at(&deciding(root));
  if (const Node* node = plan.rows_ ? making(root) : nullptr)
    plan.drops_remainder_ = node->batch_rows()->fewer == BatchRows::Fewer::none;
  plan.guarantee_ = guarantee_of(root);
  plan.ordered_ = ordered(root);
  plan.unsavable_ = unsavable(root);
  plan.inelastic_ = inelastic(root);
  plan.expected_elements_ = penstock::expected_elements(root);
  return plan;
}

void Plan::check_memory() const {
  std::string parts;
  for (const PlannedStage& stage : stages_) {
    if (!stage.batches || !stage.batches->in_place) continue;
    if (stage.batches->slot_bytes == SIZE_MAX) {
      throw Error(ErrorCode::resource_exhausted,
                  stage.label + " makes batches of up to " + std::to_string(stage.batches->rows) +
                      " elements, larger than any memory budget; this one is " +
                      std::to_string(memory_limit_));
    }
    parts += (parts.empty() ? "" : " + ") +
             (stage.uses > 1 ? std::to_string(stage.uses) + " times " : "") +
             std::to_string(stage.batches->slot_bytes) + " for a batch of " + stage.label;
  }
  if (least_memory_ > memory_limit_) {
    throw Error(ErrorCode::resource_exhausted,
                "the plan needs at least " + std::to_string(least_memory_) + " bytes (" + parts +
                    "), and the memory budget is " + std::to_string(memory_limit_));
  }
}

Dataset Plan::elements() const {
  return Dataset(batch_stage().node->inputs()[0]);
}

Dataset Plan::shard(std::int64_t count, std::int64_t index) const {
  const Node* refuses = nullptr;
  NodePtr made = batches_of_shard(
      *root_, {static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(index)}, refuses);
  if (made) return Dataset(std::move(made));
  const PlannedStage& stage = *find(*refuses);
  throw Error(ErrorCode::invalid_argument,
              stage.label + " would give other rows, made of a shard of its elements");
}

std::optional<Dataset> Plan::batches_of(const Dataset& elements) const {
  NodePtr batches = batch_stage().node->batched_over(elements.node());
  return batches ? std::optional<Dataset>(std::move(batches)) : std::nullopt;
}

std::string_view name_of(Resume resume) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"position", "order", "work"};
  return kNames[static_cast<std::size_t>(resume)];
}

std::string_view name_of(Guarantee guarantee) noexcept {
  return guarantee == Guarantee::exact ? "EXACT" : "EXACT_IF_DETERMINISTIC";
}

std::string Plan::to_string() const {
  std::ostringstream out;
  out << "stages, in the order data flows:\n";
  print_stage(out, *this, *root_, 0);
  out << "memory: budget " << bytes_text(memory_limit_) << "; one slot of each batch stage "
      << bytes_text(least_memory_) << (least_memory_ > memory_limit_ ? " - refused" : "") << "\n";
  out << "shares: at most " << bytes_text(shares_.slots) << " for batches made ahead, "
      << bytes_text(shares_.kept) << " for what a stage keeps, " << bytes_text(shares_.group)
      << " for a group\n";
  out << "threads: " << threads_
      << " for work, one for each order segment, and some that wait for files\n";
  if (ordered_) {
    out << "order and bytes: a function of the graph, the seed (" << seed_
        << ") and the epoch alone\n";
  } else {
    out << "order: that in which an unordered map finishes; bytes: a function of the graph, the "
           "seed ("
        << seed_ << ") and the epoch\n";
  }
  out << "stopped and restored: " << name_of(guarantee_)
      << (guarantee_ == Guarantee::exact ? ", each element once and with the same bytes"
                                         : ", each element once, with the same bytes if the "
                                           "user's callables depend on their input alone")
      << "; costs " << name_of(resume_) << "\n";
  if (!unsavable_.empty()) out << "  but " << unsavable_ << "\n";
  if (sharded_) {
    out << "another number of shards: "
        << (inelastic_.empty() ? "continues in the same order" : "refused, " + inelastic_) << "\n";
  }
  print_advice(out, stages_);
  return out.str();
}

std::string Plan::summary() const {
  constexpr std::size_t kMostAside = 60;
  std::vector<Line> lines;
  add_lines(*this, *root_, 0, lines);
  std::size_t aside = 0;
  for (const Line& line : lines) {
    if (line.stage.size() <= kMostAside) aside = std::max(aside, line.stage.size());
  }
  std::ostringstream out;
  for (const Line& line : lines) {
    out << line.stage;
    if (!line.makes.empty()) {
      const std::size_t gap = line.stage.size() < aside ? aside - line.stage.size() : 0;
      out << std::string(gap + 2, ' ') << line.makes;
    }
    out << "\n";
  }
  out << "memory: at least " << bytes_text(least_memory_) << " for slots, of a budget of "
      << bytes_text(memory_limit_) << (least_memory_ > memory_limit_ ? " - refused" : "") << "\n";
  out << "stopped and restored: " << name_of(guarantee_) << "; costs " << name_of(resume_)
      << (ordered_ ? "" : "; in any order") << "\n";
  if (!unsavable_.empty()) out << "  but " << unsavable_ << "\n";
  if (sharded_ && !inelastic_.empty())
    out << "another number of shards: refused, " << inelastic_ << "\n";
  print_advice(out, stages_);
  return out.str();
}

std::string Plan::to_dot() const {
  std::ostringstream out;
  out << "digraph pipeline {\n  node [shape=box];\n";
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const PlannedStage& stage = stages_[i];
    out << "  s" << i << " [label=\"" << dot_text(stage.label) << "\\n";
    if (!stage.options.empty()) out << dot_text(stage.options) << "\\n";
    out << dot_text(stage.spec.to_string()) << "\\n"
        << count_text(stage.cardinality) << " elements\"];\n";
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    for (const NodePtr& input : stages_[i].node->inputs())
      out << "  s" << index_.at(input.get()) << " -> s" << i << ";\n";
  }
  out << "}\n";
  return out.str();
}

std::string Dataset::explain(const RunOptions& options) const {
  return compile(*this, options).to_string();
}

}  // namespace penstock
