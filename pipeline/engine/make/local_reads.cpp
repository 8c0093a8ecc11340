// Reads the records of a group: on one thread, or on several if each read waits.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>

#include "pipeline/core/spans.h"
#include "pipeline/core/waits.h"
#include "pipeline/engine/make/local_runner.h"
#include "pipeline/engine/run/run.h"
#include "pipeline/io/read_count.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

// Reads byte strings straight into their batches. A record that cannot be read this way is read
// like any other record, and kept until the whole group was read.
void read_texts(const Group& group, std::size_t first, std::size_t count, GroupContext& context,
                std::vector<Outlier>& outliers) {
  const auto start = Clock::now();
  const Program& program = *group.items.front().program;
  thread_local std::vector<std::uint64_t> indices;
  thread_local std::vector<std::size_t> left;
  std::uint64_t bytes = 0;
  Places(group.places).behind(first).for_each(count, [&](const Place& place) {
    indices.clear();
    left.clear();
    for (const ElementRef& item : group.all_items().subspan(place.first, place.count)) {
      indices.push_back(item.index);
    }
    const Slot::Texts rows = place.slot->texts(place.row, place.count);
    try {
      program.source()->read_texts(indices, rows.texts, rows.owners, left, context);
    } catch (...) {  // `read` is now called for all and reports the error
      left.resize(place.count);
      std::iota(left.begin(), left.end(), std::size_t{0});
    }
    for (const std::size_t k : left) {
      rows.texts[k] = {};
      outliers.emplace_back().item = place.first + k;
    }
    for (const std::string_view text : rows.texts) bytes += text.size();
  });
  const auto took = Clock::now() - start;
  add_counters(program.leaf_counters(), count - outliers.size(), bytes,
               static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count()));
  Spans::note_since(Spans::Kind::read, program.leaf_stage(), start, count);
  for (Outlier& outlier : outliers) {
    read_items(group.all_items().subspan(outlier.item, 1), {&outlier.work, 1}, {}, context);
  }
  std::sort(outliers.begin(), outliers.end(),
            [](const Outlier& a, const Outlier& b) { return a.item < b.item; });
}

std::size_t begin_of(const Group& group, std::size_t part, std::size_t parts) {
  return group.count * part / parts;
}

}  // namespace

void LocalRunner::submit_reads(Group& group) {
  const bool alone = run_.step_back().alone();
  const std::size_t parts = alone ? 1 : pace_.parts(group.count, group.read_bytes);
  group.lost = false;
  group.unread = parts;
  if (alone) return read(group, 0, 1);
  if (parts == 1) {  // the captures then need no allocation
    run_.submit([this, &group] { read(group, 0, 1); }, true);
    return;
  }
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = begin_of(group, part, parts);
    const auto items = group.all_items().subspan(begin, begin_of(group, part + 1, parts) - begin);
    Group::Part& own = group.parts.emplace_back(run_.memory(), key_, run_.retry(),
                                                run_.cancelled_flag(), run_.options().trust_data);
    own.bytes = read_bytes(items);
    own.context.promise_of(*group.context, own.bytes);
  }
  for (std::size_t part = 0; part < parts; ++part) {
    try {
      run_.submit([this, &group, part, parts] { read(group, part, parts); }, true);
    } catch (...) {
      if (part == 0) throw;
      read(group, part, parts);  // other parts have begun
    }
  }
}

void LocalRunner::read(Group& group, std::size_t part, std::size_t parts) noexcept {
  try {
    read_part(group, part, parts);
  } catch (...) {
    listener_.broke_down();
    group.lost.store(true, std::memory_order_relaxed);
  }
  if (group.unread.fetch_sub(1, std::memory_order_acq_rel) == 1) go_on(group);
}

void LocalRunner::read_part(Group& group, std::size_t part, std::size_t parts) {
  if (listener_.stopping()) return;
  const std::size_t begin = begin_of(group, part, parts);
  const std::size_t count = begin_of(group, part + 1, parts) - begin;
  const GroupSpan span(Spans::Kind::group, stage_, count);
  GroupContext& context = parts > 1 ? group.parts[part].context : *group.context;
  std::vector<Outlier>& outliers = parts > 1 ? group.parts[part].outliers : group.outliers;
  const auto items = group.all_items().subspan(begin, count);
  const std::uint64_t bytes = parts > 1 ? group.parts[part].bytes : group.read_bytes;
  const ReadsAsked before = reads_asked();
  const WaitWatch watch;
  const auto start = Clock::now();
  if (group.textual) {
    read_texts(group, begin, count, context, outliers);
  } else {
    read_items(items, group.all_work().subspan(begin, count), Places(group.places).behind(begin),
               context);
  }
  // A source that does not count its reads makes one for each record.
  ReadsAsked asked{reads_asked().waits - before.waits, reads_asked().filled - before.filled};
  if (asked.waits == 0) asked.add(count, 1);
  const auto took = watch.waited() ? Clock::now() - start : Clock::duration::zero();
  pace_.learn(count, asked, bytes, took);
}

void LocalRunner::join_parts(Group& group) {
  for (Group::Part& part : group.parts) {
    group.context->absorb(part.context);
    std::move(part.outliers.begin(), part.outliers.end(), std::back_inserter(group.outliers));
  }
  group.parts.clear();
}

// Continues with a group whose parts have all been read.
void LocalRunner::go_on(Group& group) noexcept {
  if (group.lost.load(std::memory_order_relaxed)) return listener_.group_lost(group);
  try {
    join_parts(group);
    listener_.group_ready(group);
    // If only storing the results is left, that is not worth a task of its own. Nor is one element.
    if (has_ops(group.samples()) && !ops_block(group.samples()) && !run_.step_back().alone()) {
      run_.submit([this, &group] { compute(group); }, false);
      return;
    }
  } catch (...) {
    abandon(group);
    return;
  }
  compute(group);
}

}  // namespace penstock
