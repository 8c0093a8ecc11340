#include "pipeline/engine/make/local_runner.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>

#include "pipeline/core/spans.h"
#include "pipeline/core/waits.h"
#include "pipeline/io/read_count.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = 64;
constexpr std::size_t kMostKept = 1024;
constexpr std::size_t kMostRead = 256;

bool is_one_text(const SlotLayout* layout) {
  if (layout == nullptr || layout->element.size() != 1) return false;
  const ComponentSpec& component = layout->element[0];
  return component.dtype == DType::bytes && component.shape.rank() == 0;
}

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

LocalRunner::LocalRunner(const Services& services, const SegmentWork& segment,
                         GroupListener& listener)
    : run_(services),
      stage_(segment.owner.label),
      key_(segment.key),
      layout_(segment.layout),
      stores_texts_(is_one_text(segment.layout)),
      sizer_(segment.sizer),
      held_(segment.owner.held.group),
      pace_(segment.owner.learnt.reads),
      listener_(listener) {}

void LocalRunner::prepare(Group& group) {
  group.context.emplace(run_.making, key_);
  group.reads = reads_block(group.samples());
  group.textual =
      group.reads && group.alike && stores_texts_ && group.items.front().program->textual();
  // Results that are kept until the whole group is done should fit into the nearer caches. Records
  // that are read together should fit with their bytes.
  most_ = !group.reads && in_place()                       ? SIZE_MAX
          : group.reads && !group.textual && !pace_.slow() ? kMostRead
                                                           : kMostKept;
  make_work(group);
  group.read_bytes = group.reads || !group.alike ? read_bytes(group.all_items()) : 0;
}

void LocalRunner::make_work(Group& group) const {
  const std::size_t kept = group.textual                ? 1
                           : in_place() && !group.reads ? std::min(group.count, kChunk)
                                                        : group.count;
  if (group.work.size() < kept) group.work.resize(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    group.work[i].keep = true;
    group.work[i].row = Row();
  }
}

void LocalRunner::begin(Group& group) {
  if (group.reads) {
    submit_reads(group);
  } else {
    run_.executors.submit([this, &group] { compute(group); }, ops_block(group.samples()));
  }
}

void LocalRunner::abandon(Group& group) noexcept {
  listener_.broke_down();
  listener_.group_lost(group);
}

void LocalRunner::compute(Group& group) noexcept {
  if (!listener_.stopping()) {
    try {
      const GroupSpan span(Spans::Kind::group, stage_, group.count);
      const auto start = Clock::now();
      make(group);
      const std::uint64_t bytes = group.context->allocated();
      sizer_.learn(group.count, Clock::now() - start, bytes, preferred_group(group.all_items()));
      if (!group.context->blocked()) held_.raise(group.input_bytes + bytes);
      group.context->end_promise();
    } catch (...) {
      abandon(group);
      return;
    }
    if (group.context->blocked()) {
      group.start_over();
      listener_.group_blocked(group);
      return;
    }
  }
  listener_.group_done(group);
}

// Results that are stored at once are made in chunks that stay in the cache.
void LocalRunner::make(Group& group) {
  if (group.textual) return store_outliers(group, 0, group.outliers);
  if (!in_place() || group.reads) return make_some(group, 0, group.count);
  const bool columnar = group.alike && group.items.front().program->columnar();
  for (std::size_t first = 0; first < group.count;) {
    const auto rest = group.all_items().subspan(first);
    std::vector<Outlier> outliers;
    std::size_t made = 0;
    if (columnar) {
      const Places places = Places(group.places).behind(first);
      made = compute_columns(rest, places, *group.context, outliers);
    }
    store_outliers(group, first, outliers);
    if (made == 0) {
      made = std::min(kChunk, rest.size());
      make_some(group, first, made);
    }
    first += made;
  }
}

void LocalRunner::make_some(Group& group, std::size_t first, std::size_t count) {
  const std::span<WorkItem> work(group.work.data(), count);
  compute_items(group.all_items().subspan(first, count), work, Places(group.places).behind(first),
                *group.context);
  if (in_place()) store(group, first, work);
  check_views(group, first, work);
}

// Fails the items that were made of a mapped file while that was written to.
void LocalRunner::check_views(Group& group, std::size_t first, std::span<WorkItem> work) {
  if (group.context->views().empty()) return;
  find_changed_views(group.all_items().subspan(first, work.size()), *group.context,
                     [&](std::size_t item, Status status) {
                       if (in_place()) {
                         group.fail(first + item, std::move(status));
                       } else {
                         work[item].element.clear();
                         work[item].status = std::move(status);
                       }
                     });
}

bool LocalRunner::remake(Group& group, bool last_try) {
  group.context.emplace(run_.making, key_);
  make_work(group);
  if (group.reads) read_part(group, 0, 1);
  if (listener_.stopping()) return true;  // perhaps nothing was read
  make(group);
  const GroupContext& context = *group.context;
  const bool impossible = group.count == 1 && context.blocked_bytes() > run_.making.memory.limit();
  if (!context.blocked() || impossible || last_try) {
    held_.raise(group.input_bytes + context.allocated());
    group.context->end_promise();
    return true;
  }
  group.start_over();
  return false;
}

// Stores the results in `work` in their places and releases them. They belong to the group's items
// from `first` on.
void LocalRunner::store(Group& group, std::size_t first, std::span<WorkItem> work) {
  Places(group.places).behind(first).for_each(work.size(), [&](const Place& place) {
    store_run(group, place, work.first(place.count));
    work = work.subspan(place.count);
  });
}

void LocalRunner::store_run(Group& group, const Place& place, std::span<WorkItem> work) {
  for (std::size_t i = 0; i < work.size(); ++i) {
    i += place.slot->store_fitting(work.subspan(i), place.row + i);
    if (i == work.size()) break;
    WorkItem& item = work[i];
    if (item.status.ok()) {
      try {
        item.status = place.slot->store(item, place.row + i, *group.context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
      if (!item.status.ok()) item.status = locate(std::move(item.status), {}, stage_);
    }
    if (!item.status.ok()) {
      group.failures.emplace_back(place.first + i, std::move(item.status));
      item.status = Status();
    }
  }
  for (WorkItem& item : work) item.element.clear();
}

void LocalRunner::store_outliers(Group& group, std::size_t first, std::vector<Outlier>& outliers) {
  for (Outlier& outlier : outliers) store(group, first + outlier.item, {&outlier.work, 1});
}

void LocalRunner::submit_reads(Group& group) {
  const std::size_t parts = pace_.parts(group.count, group.read_bytes);
  group.lost = false;
  group.unread = parts;
  if (parts == 1) {  // the captures then need no allocation
    run_.executors.submit([this, &group] { read(group, 0, 1); }, true);
    return;
  }
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = begin_of(group, part, parts);
    const auto items = group.all_items().subspan(begin, begin_of(group, part + 1, parts) - begin);
    Group::Part& own = group.parts.emplace_back(run_.making, key_);
    own.bytes = read_bytes(items);
    own.context.promise_of(*group.context, own.bytes);
  }
  for (std::size_t part = 0; part < parts; ++part) {
    try {
      run_.executors.submit([this, &group, part, parts] { read(group, part, parts); }, true);
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
  if (group.unread.fetch_sub(1, std::memory_order_acq_rel) == 1) resume(group);
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
void LocalRunner::resume(Group& group) noexcept {
  if (group.lost.load(std::memory_order_relaxed)) return listener_.group_lost(group);
  try {
    join_parts(group);
    listener_.group_ready(group);
    // If only storing the results is left, that is not worth a task of its own.
    if (has_ops(group.samples()) && !ops_block(group.samples())) {
      run_.executors.submit([this, &group] { compute(group); }, false);
      return;
    }
  } catch (...) {
    abandon(group);
    return;
  }
  compute(group);
}

}  // namespace penstock
