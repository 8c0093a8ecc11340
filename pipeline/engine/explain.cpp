// A plan as text.
#include <array>
#include <iomanip>
#include <sstream>
#include <utility>

#include <penstock/plan.h>

#include "pipeline/order/node.h"

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

/// In a few words, in the order of the enumeration.
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

/// A stage behind its inputs, at each place where it is used.
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
        << (inelastic_.empty() ? "goes on with the same order" : "refused, " + inelastic_) << "\n";
  }
  bool advised = false;
  for (const PlannedStage& stage : stages_) {
    if (stage.advice.empty()) continue;
    if (!std::exchange(advised, true)) out << "advice:\n";
    out << "  " << stage.name << ": " << stage.advice << "\n";
  }
  return out.str();
}

std::string Dataset::explain(const RunOptions& options) const {
  return compile(*this, options).to_string();
}

}  // namespace penstock
