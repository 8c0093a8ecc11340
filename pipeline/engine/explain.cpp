// What a dataset is and how it would run, as text.
#include <iomanip>
#include <sstream>

#include <penstock/dataset.h>

#include "pipeline/core/sizes.h"
#include "pipeline/engine/guarantee.h"
#include "pipeline/engine/memory.h"
#include "pipeline/engine/slots.h"
#include "pipeline/order/node.h"
#include "pipeline/order/source.h"
#include "pipeline/work/batch.h"

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

/// How a stage runs, in a few words.
std::string how(const Node& node) {
  if (node.inputs().empty()) {
    return node.indexed_size() ? "references, read in parallel"
                               : "a stream, read on the order thread";
  }
  if (node.batch_size() > 0) {
    return fills_slots(node) ? "written in place into recycled slots"
                             : "values gathered and copied once";
  }
  for (const char* gathers :
       {"window", "group_by_window", "bucket_by_length", "pack", "rebatch", "ragged_batch"}) {
    if (node.name() == gathers) return "values held, then gathered in parallel, several at a time";
  }
  if (node.name() == "map") {
    return node.pending() == Pending::none ? "parallel, results as they finish"
                                           : "parallel, fused with what follows";
  }
  if (node.name() == "filter" || node.name() == "take_while")
    return "predicate parallel, verdicts in order";
  if (node.indexed_size()) return "on positions, nothing is read";
  if (node.pending() == Pending::none && node.inputs()[0]->pending() != Pending::none) {
    return "values are made first, in parallel";
  }
  return "on references";
}

class Explainer {
 public:
  Explainer(const Node& root, const RunOptions& options)
      : budget_(options.memory_bytes > 0 ? options.memory_bytes : default_memory_bytes()),
        threads_(options.threads > 0 ? options.threads : usable_cpus()),
        seed_(options.seed),
        guarantee_(guarantee_of(root)),
        ordered_(ordered(root)),
        unsavable_(unsavable(root)),
        inelastic_(inelastic(root)) {}

  void add(const Node& node, int depth) {
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      add(*node.inputs()[i], depth + (i == 0 ? 0 : 1));
    }
    sharded_ = sharded_ || node.name() == "shard";
    Description description;
    node.describe(description);
    const std::string options = description.to_string();
    stages_ << std::string(static_cast<std::size_t>(2 * depth + 2), ' ') << node.name()
            << (options.empty() ? "" : "(" + options + ")") << "\n"
            << std::string(static_cast<std::size_t>(2 * depth + 6), ' ') << node.spec().to_string()
            << ", " << count_text(node.cardinality()) << " elements; " << how(node)
            << "; resumes by " << name_of(node.resume()) << "\n";
    resume_ = std::max(resume_, node.resume());
    if (fills_slots(node)) {
      slot_bytes_ = saturating_sum(slot_bytes_,
                                   SlotLayout(node.inputs()[0]->spec(), node.batch_size()).bytes);
    }
    if (const std::string advice = node.advice(); !advice.empty()) {
      advice_ << "  " << node.name() << ": " << advice << "\n";
    }
  }

  std::string text() const {
    std::ostringstream out;
    out << "stages, in the order data flows:\n" << stages_.str();
    out << "memory: budget " << bytes_text(budget_) << "; one slot of each batch stage "
        << bytes_text(slot_bytes_) << (slot_bytes_ > budget_ ? " - refused" : "") << "\n";
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
          << (inelastic_.empty() ? "goes on with the same order" : "refused, " + inelastic_)
          << "\n";
    }
    if (!advice_.str().empty()) out << "advice:\n" << advice_.str();
    return out.str();
  }

 private:
  std::uint64_t budget_;
  int threads_;
  std::uint64_t seed_;
  Guarantee guarantee_;
  bool ordered_;
  std::string unsavable_;
  std::string inelastic_;
  bool sharded_ = false;
  Resume resume_ = Resume::position;
  std::uint64_t slot_bytes_ = 0;
  std::ostringstream stages_;
  std::ostringstream advice_;
};

}  // namespace

std::string Dataset::explain(const RunOptions& options) const {
  Explainer explainer(*node_, options);
  explainer.add(*node_, 0);
  return explainer.text();
}

}  // namespace penstock
