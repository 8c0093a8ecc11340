#include "pipeline/engine/make/executor.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <penstock/internal/slow_work.h>

#include "pipeline/core/sizes.h"
#include "pipeline/core/spans.h"
#include "pipeline/engine/make/row_places.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

/// Calls `use(begin, end)` for each run of items with the same program.
template <typename F>
void for_each_run(std::span<const ElementRef> items, F use) {
  const ElementRef* const all = items.data();
  const std::size_t count = items.size();
  for (std::size_t begin = 0; begin < count;) {
    const Program* const program = all[begin].program.get();
    std::size_t end = begin + 1;
    while (end < count && all[end].program.get() == program) ++end;
    use(begin, end);
    begin = end;
  }
}

/// True if `is_such` holds for an item's program, or for the program of something that it gathers.
template <typename F>
bool any_program(std::span<const ElementRef> items, F is_such) noexcept {
  bool found = false;
  for_each_run(items, [&](std::size_t begin, std::size_t end) {
    const Program* const program = items[begin].program.get();
    if (program == nullptr) return;
    found = found || is_such(*program);
    if (program->gather() == nullptr) return;
    for (std::size_t i = begin; i < end && !found; ++i) {
      if (items[i].payload) found = any_program<F>(items[i].payload->children, is_such);
    }
  });
  return found;
}

/// True if the item is a record of the mapped file, or holds or gathers one.
bool is_made_of(const ElementRef& item, const Mapping& mapping) {
  if (item.program && item.program->source() != nullptr &&
      item.program->source()->locate(item.index).shard == mapping.path()) {
    return true;
  }
  if (!item.payload) return false;
  const Element& element = item.payload->element;
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i].owner().get() == &mapping) return true;
  }
  const std::vector<ElementRef>& children = item.payload->children;
  return std::any_of(children.begin(), children.end(),
                     [&](const ElementRef& child) { return is_made_of(child, mapping); });
}

void fail_all(std::span<WorkItem> work, const Status& status) {
  for (WorkItem& item : work) {
    if (item.status.ok()) item.status = status;
  }
}

void read_source(std::span<WorkItem> work, const Source& source, GroupContext& context) {
  slow_work("a source is read");
  try {
    source.read(work, context);
  } catch (...) {
    fail_all(work, status_from_current_exception());
  }
}

/// Repeats the reads that failed and may succeed now.
void read_again(std::span<WorkItem> work, const Source& source, GroupContext& context) {
  std::vector<WorkItem> failed;
  for (int tries = 1;; ++tries) {
    const auto worth_it = std::find_if(work.begin(), work.end(), [](const WorkItem& item) {
      return !item.status.ok() && item.status.error().code() == ErrorCode::unavailable;
    });
    if (worth_it == work.end() ||
        !context.retry().again(worth_it->status.error(), tries, source.blocking())) {
      return;
    }
    failed.clear();
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (work[i].status.ok() || work[i].status.error().code() != ErrorCode::unavailable) continue;
      WorkItem item;
      item.index = work[i].index;
      item.ordinal = work[i].ordinal;
      item.row = work[i].row;
      failed.push_back(std::move(item));
      places.push_back(i);
    }
    read_source(failed, source, context);
    for (std::size_t i = 0; i < places.size(); ++i) work[places[i]] = std::move(failed[i]);
  }
}

void forget_rows(std::span<WorkItem> work) noexcept {
  for (WorkItem& item : work) item.row = Row();
}

void read_run(std::span<const ElementRef> items, std::span<WorkItem> work, const Places& places,
              const Program& program, GroupContext& context) {
  const auto start = Clock::now();
  for (std::size_t i = 0; i < items.size(); ++i) {
    work[i].index = items[i].index;
    work[i].ordinal = items[i].ordinal;
    work[i].row = Row();  // work items are reused
  }
  RowPlaces rows;
  if (program.making_steps() == 0) rows.assign(work, places, program);
  read_source(work, *program.source(), context);
  read_again(work, *program.source(), context);
  if (!program.final_places().empty()) forget_rows(work);
  finish_step(items, work, program.leaf_stage(), program.leaf_counters(),
              program.leaf_fixed_bytes(), start);
  Spans::note_since(Spans::Kind::read, program.leaf_stage(), start, work.size());
}

void note_views(std::span<const WorkItem> work, GroupContext& context) {
  if (!Mapping::any()) return;
  for (const WorkItem& item : work) context.note_views(item.element);
}

/// Finds the elements that an item gathers: in their payloads, or in `made` if they must be made
/// first. Returns the first error among them. Values are not copied, since there can be many.
Status find_parts(const ElementRef& item, std::vector<const Element*>& parts,
                  std::vector<WorkItem>& made, GroupContext& context) {
  parts.clear();
  made.clear();
  if (!item.payload) return {};
  const std::vector<ElementRef>& children = item.payload->children;
  Status status;
  if (!any_program(children, [](const Program&) { return true; })) {
    for (const ElementRef& child : children) {
      parts.push_back(&child.payload->element);
      if (status.ok()) status = child.payload->status;
    }
    if (Mapping::any())
      for (const Element* part : parts) context.note_views(*part);
    return status;
  }
  const auto read = std::find_if(context.read_parts.begin(), context.read_parts.end(),
                                 [&](const auto& known) { return known.tuple == &item; });
  if (read != context.read_parts.end()) {
    made = std::move(read->parts);
  } else {
    made.resize(children.size());
    read_items(children, made, {}, context);
  }
  compute_items(children, made, {}, context);
  for (const WorkItem& child : made) {
    parts.push_back(&child.element);
    if (status.ok()) status = child.status;
  }
  return status;
}

/// Gathers an element, and counts the padding in the components of its parts.
void gather_one(const Program& program, std::span<const Element* const> parts, WorkItem& out,
                GroupContext& context) {
  const GatherOp& op = *program.gather();
  if (!op.pads() || parts.empty()) return op.gather(parts, out, context);
  const std::size_t components = parts.front()->size();
  std::uint64_t given = 0;
  for (const Element* part : parts) given += payload_bytes(*part);
  op.gather(parts, out, context);
  if (!out.status.ok() || program.leaf_counters() == nullptr) return;
  const std::uint64_t bytes = payload_bytes(out.element, components);
  program.leaf_counters()->padding_bytes.fetch_add(bytes - std::min(given, bytes),
                                                   std::memory_order_relaxed);
}

void gather_run(std::span<const ElementRef> items, std::span<WorkItem> work, const Program& program,
                GroupContext& context) {
  std::vector<const Element*> parts;
  std::vector<WorkItem> made;
  for (std::size_t i = 0; i < items.size(); ++i) {
    work[i].index = items[i].index;
    work[i].ordinal = items[i].ordinal;
    const Status status = find_parts(items[i], parts, made, context);
    if (work[i].status.ok()) work[i].status = status;
    if (!work[i].status.ok()) continue;
    const auto start = Clock::now();
    try {
      gather_one(program, parts, work[i], context);
    } catch (...) {
      work[i].status = status_from_current_exception();
    }
    if (!work[i].status.ok() && work[i].index < parts.size()) {
      work[i].status =
          locate(std::move(work[i].status), origin_of(items[i].payload->children[work[i].index]),
                 program.leaf_stage());
    }
    finish_step(items.subspan(i, 1), work.subspan(i, 1), program.leaf_stage(),
                program.leaf_counters(), -1, start);
  }
}

void take_values(std::span<const ElementRef> items, std::span<WorkItem> work) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    work[i].ordinal = items[i].ordinal;
    work[i].element = items[i].payload->element;
    work[i].status = items[i].payload->status;
    work[i].keep = items[i].payload->keep;
    work[i].key = items[i].payload->key;
  }
}

void keep_origin(const ElementRef& item, Payload& payload) {
  payload.ends = item.payload && item.payload->ends;
  if (item.program && item.program->source() != nullptr) {
    payload.origin = item.program;
    payload.index = item.index;
  } else if (item.payload && !item.payload->children.empty()) {
    keep_origin(item.payload->children.front(), payload);
  } else if (item.payload) {
    payload.origin = item.payload->origin;
    payload.index = item.payload->index;
    payload.shard = item.payload->shard;
    payload.offset = item.payload->offset;
  }
}

}  // namespace

void find_changed_views(std::span<const ElementRef> items, const GroupContext& context,
                        const std::function<void(std::size_t, Status)>& fail) {
  for (const BufferPtr& view : context.views()) {
    try {
      view->mapping()->check(context.trust_data());
    } catch (const Error& error) {
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (is_made_of(items[i], *view->mapping())) fail(i, locate(error, origin_of(items[i]), {}));
      }
    }
  }
}

void finish_step(std::span<const ElementRef> items, std::span<WorkItem> work,
                 const std::string& stage, StageCounters* counters, std::int64_t fixed_bytes,
                 Clock::time_point start, bool leaves) {
  std::uint64_t done = 0;
  for (const WorkItem& item : work) done += item.status.ok() ? 1 : 0;
  std::uint64_t bytes = done * static_cast<std::uint64_t>(std::max<std::int64_t>(fixed_bytes, 0));
  if (fixed_bytes < 0) {
    for (const WorkItem& item : work) bytes += item.status.ok() ? payload_bytes(item.element) : 0;
  }
  for (std::size_t i = 0; done < work.size() && i < work.size(); ++i) {
    if (work[i].status.ok() || !work[i].status.error().where().stage.empty()) continue;
    work[i].status = locate(std::move(work[i].status), origin_of(items[i]), stage);
  }
  add_counters(counters, leaves ? done : 0, leaves ? bytes : 0, since(start));
}

void read_items(std::span<const ElementRef> items, std::span<WorkItem> work, const Places& places,
                GroupContext& context) {
  for_each_run(items, [&](std::size_t begin, std::size_t end) {
    const Program* program = items[begin].program.get();
    if (program == nullptr) return;
    if (program->gather() != nullptr) {
      for (std::size_t i = begin; i < end; ++i) {
        if (!items[i].payload || !reads_block(items[i].payload->children)) continue;
        const std::vector<ElementRef>& parts = items[i].payload->children;
        std::vector<WorkItem> children(parts.size());
        read_items(parts, children, {}, context);
        context.read_parts.push_back({&items[i], std::move(children)});
      }
      return;
    }
    if (!program->reads_block()) return;
    const std::size_t count = end - begin;
    read_run(items.subspan(begin, count), work.subspan(begin, count), places.behind(begin),
             *program, context);
  });
}

void compute_items(std::span<const ElementRef> items, std::span<WorkItem> work,
                   const Places& places, GroupContext& context) {
  slow_work("elements are made");
  for_each_run(items, [&](std::size_t begin, std::size_t end) {
    const Program* program = items[begin].program.get();
    const std::size_t count = end - begin;
    const auto run_items = items.subspan(begin, count);
    const auto run_work = work.subspan(begin, count);
    const Places run_places = places.behind(begin);
    if (program == nullptr) {
      take_values(run_items, run_work);
      note_views(run_work, context);
      return;
    }
    if (program->gather() != nullptr) {
      gather_run(run_items, run_work, *program, context);
    } else if (program->source() == nullptr) {
      take_values(run_items, run_work);
    } else if (!program->reads_block()) {
      read_run(run_items, run_work, run_places, *program, context);
    }
    note_views(run_work, context);
    const std::vector<Program::Step>& steps = program->steps();
    RowPlaces rows;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto start = Clock::now();
      if (s + 1 == program->making_steps()) rows.assign(run_work, run_places, *program);
      context.set_op(steps[s].rng_op);
      try {
        steps[s].op->run(run_work, context);
      } catch (...) {
        fail_all(run_work, status_from_current_exception());
      }
      context.end_codecs();
      finish_step(run_items, run_work, steps[s].stage, steps[s].counters, steps[s].fixed_bytes,
                  start, steps[s].leaves);
      Spans::note_since(Spans::Kind::op, steps[s].stage, start, run_work.size());
    }
    if (!program->final_places().empty()) forget_rows(run_work);
  });
}

bool all_alike(std::span<const ElementRef> items) noexcept {
  if (items.empty() || !items.front().program) return false;
  const ProgramPtr& program = items.front().program;
  if (program->source() == nullptr || !program->immortal()) return false;
  for (const ElementRef& item : items) {
    if (!(item.program == program)) return false;
  }
  return true;
}

bool reads_block(std::span<const ElementRef> items) noexcept {
  return any_program(items, [](const Program& program) { return program.reads_block(); });
}

bool has_ops(std::span<const ElementRef> items) noexcept {
  return std::any_of(items.begin(), items.end(), [](const ElementRef& item) {
    return item.program && (!item.program->steps().empty() || item.program->gather() != nullptr);
  });
}

bool ops_block(std::span<const ElementRef> items) noexcept {
  return any_program(items, [](const Program& program) { return program.ops_block(); });
}

std::size_t preferred_group(std::span<const ElementRef> items) noexcept {
  if (items.empty() || !items.front().program) return 1;
  const ElementRef& item = items.front();
  std::size_t most = 1;
  for (const Program::Step& step : item.program->steps())
    most = std::max(most, step.op->preferred_group());
  if (item.program->gather() != nullptr && item.payload)
    for (const ElementRef& child : item.payload->children)
      most = std::max(most, preferred_group({&child, 1}));
  return most;
}

std::uint64_t read_bytes(std::span<const ElementRef> items) {
  std::uint64_t total = 0;
  for_each_run(items, [&](std::size_t begin, std::size_t end) {
    const Program* program = items[begin].program.get();
    if (program == nullptr) return;
    if (program->reads_block()) {
      const Source& source = *program->source();
      const bool shares = source.shares_buffers();
      for (std::size_t i = begin; i < end; ++i) {
        const std::uint64_t bytes = source.record_bytes(items[i].index);
        // A buffer is up to an eighth too large.
        total = saturating_sum(total,
                               shares ? saturating_sum(bytes, bytes / 8) : Memory::rounded(bytes));
      }
    } else if (program->gather() != nullptr) {
      for (std::size_t i = begin; i < end; ++i) {
        if (items[i].payload) total = saturating_sum(total, read_bytes(items[i].payload->children));
      }
    }
  });
  return total;
}

ElementRef value_of(const ElementRef& item, WorkItem& work) {
  Ref<Payload> payload = Payload::make();
  payload->element = std::move(work.element);
  payload->status = std::move(work.status);
  payload->keep = work.keep;
  payload->key = work.key;
  keep_origin(item, *payload);
  return ref_to(std::move(payload), item.ordinal);
}

}  // namespace penstock
