// Prints a plan as text.
#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

#include <penstock/plan.h>

#include "pipeline/stage/node.h"

namespace penstock {
namespace {

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
