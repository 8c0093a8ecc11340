// Makes the values of many items at a time.
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "pipeline/core/rows.h"
#include "pipeline/core/spans.h"
#include "pipeline/engine/make/executor.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostRows = 512;
constexpr std::size_t kFewRows = 16;            // fewer rows are made one by one
constexpr std::size_t kMostBytes = 256U << 10;  // of a step's results, to stay in the cache
// Bytes of one result. Copying wider ones into columns is not worth it, unless an op prefers many
// at once.
constexpr std::size_t kNarrow = 1024;

std::uint64_t bytes_of(std::int64_t fixed_bytes, std::size_t count) {
  return count * static_cast<std::uint64_t>(std::max<std::int64_t>(fixed_bytes, 0));
}

/// Returns how many rows to make at once; 0 if they should be made one by one.
std::size_t rows_at_once(const Program& program) {
  const std::vector<Program::Step>& steps = program.steps();
  std::uint64_t widest = std::max<std::uint64_t>(bytes_of(program.leaf_fixed_bytes(), 1), 1);
  bool liked = steps.empty();
  for (const Program::Step& step : steps) {
    widest = std::max(widest, bytes_of(step.fixed_bytes, 1));
    liked = liked || step.op->preferred_group() > 1;
  }
  if (!liked && widest > kNarrow) return 0;
  const std::size_t rows = std::min<std::size_t>(kMostRows, kMostBytes / widest);
  return rows < kFewRows && !steps.empty() ? 0 : std::max<std::size_t>(rows, 1);
}

/// Neighbouring items on their way through the steps of their program. Items that leave the columns
/// at one step continue by themselves.
class ColumnRun {
 public:
  ColumnRun(std::span<const ElementRef> items, GroupContext& context,
            std::vector<Outlier>& outliers)
      : items_(items), context_(context), outliers_(outliers) {}

  void read(const Program& program, Element& out) {
    const auto start = Clock::now();
    std::array<std::uint64_t, kMostRows> indices;
    for (std::size_t i = 0; i < items_.size(); ++i) indices[i] = items_[i].index;
    program.source()->read_columns({indices.data(), items_.size()}, out);
    count(program.leaf_counters(), program.leaf_fixed_bytes(), items_.size(), start);
    Spans::note_since(Spans::Kind::read, program.leaf_stage(), start, items_.size());
  }

  void apply(const Program::Step& step, const Element& in, Element& out) {
    context_.set_op(step.rng_op);
    std::vector<Outlier> earlier = std::exchange(outliers_, {});
    std::size_t row = 0;
    for (Outlier& outlier : earlier) {
      apply(step, in, out, row, outlier.item);
      row = outlier.item + 1;
      outliers_.push_back(std::move(outlier));
      apply_to_outliers(step, outliers_.size() - 1);
    }
    apply(step, in, out, row, items_.size());
  }

 private:
  // Processes the rows [row, end).
  void apply(const Program::Step& step, const Element& in, Element& out, std::size_t row,
             std::size_t end) {
    while (row < end) {
      const auto start = Clock::now();
      const bool all = row == 0 && end == items_.size();
      Element some = all ? Element() : rows_from(out, row, end - row);
      Outlier odd;
      std::size_t done = 0;
      try {
        done = all ? step.op->run_columns(in, out, odd.work, context_)
                   : step.op->run_columns(rows_from(in, row, end - row), some, odd.work, context_);
      } catch (...) {
        leave(step, in, row, end);
        return;
      }
      count(step.counters, step.fixed_bytes, done, start);
      Spans::note_since(Spans::Kind::op, step.stage, start, done);
      row += done;
      if (row == end) return;
      name(odd, row);
      outliers_.push_back(std::move(odd));
      finish(step, outliers_.size() - 1, start);
      ++row;
    }
  }

  // The rows failed together, so each has to be tried by itself.
  void leave(const Program::Step& step, const Element& in, std::size_t row, std::size_t end) {
    const Columns rows(in);
    const std::size_t first = outliers_.size();
    for (; row < end; ++row) {
      name(outliers_.emplace_back(), row);
      rows.get(row, outliers_.back().work.element);
    }
    apply_to_outliers(step, first);
  }

  void apply_to_outliers(const Program::Step& step, std::size_t first) {
    const auto start = Clock::now();
    std::vector<WorkItem> work;
    for (std::size_t i = first; i < outliers_.size(); ++i)
      work.push_back(std::move(outliers_[i].work));
    try {
      step.op->run(work, context_);
    } catch (...) {
      const Status status = status_from_current_exception();
      for (WorkItem& item : work) {
        if (item.status.ok()) item.status = status;
      }
    }
    for (std::size_t i = first; i < outliers_.size(); ++i) {
      outliers_[i].work = std::move(work[i - first]);
      finish(step, i, start);
    }
  }

  void name(Outlier& outlier, std::size_t row) const {
    outlier.item = row;
    outlier.work.index = items_[row].index;
    outlier.work.ordinal = items_[row].ordinal;
  }

  void finish(const Program::Step& step, std::size_t i, Clock::time_point start) {
    finish_step(items_.subspan(outliers_[i].item, 1), {&outliers_[i].work, 1}, step.stage,
                step.counters, step.fixed_bytes, start);
  }

  static void count(StageCounters* counters, std::int64_t fixed_bytes, std::size_t rows,
                    Clock::time_point start) {
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    add_counters(counters, rows, bytes_of(fixed_bytes, rows),
                 static_cast<std::uint64_t>(took.count()));
  }

  std::span<const ElementRef> items_;
  GroupContext& context_;
  std::vector<Outlier>& outliers_;
};

}  // namespace

std::size_t compute_columns(std::span<const ElementRef> items, const Places& places,
                            GroupContext& context, std::vector<Outlier>& outliers) {
  const Program& program = *items.front().program;
  const std::vector<Program::Step>& steps = program.steps();
  const std::size_t most = rows_at_once(program);
  if (most == 0) return 0;
  const Place place = places.next(std::min(items.size(), most));
  const std::size_t rows = place.count;

  // Allocate all memory first: once a step was done, it must not be done again.
  boost::container::small_vector<Element, 4> results;
  const std::uint64_t blocked = context.blocked_bytes();
  try {
    if (!steps.empty()) {
      results.push_back(make_rows(program.leaf_spec(), program.leaf_names(), rows, context));
    }
    for (std::size_t s = 0; s + 1 < steps.size(); ++s) {
      results.push_back(make_rows(steps[s].spec, steps[s].names, rows, context));
    }
  } catch (const Error&) {
    context.do_without(blocked);  // a single element may find room
    return 0;
  }
  results.push_back(place.slot->columns(place.row, rows));

  ColumnRun run(items.first(rows), context, outliers);
  run.read(program, results.front());
  for (std::size_t s = 0; s < steps.size(); ++s) run.apply(steps[s], results[s], results[s + 1]);
  return rows;
}

}  // namespace penstock
