#include "pipeline/engine/make/local_runner.h"

#include <algorithm>
#include <chrono>

#include "pipeline/core/spans.h"
#include "pipeline/engine/run/run.h"
#include "pipeline/stage/support.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kChunk = 64;
constexpr std::size_t kMostKept = 1024;
constexpr std::size_t kMostRead = 256;

bool is_one_text(const SlotLayout* layout) {
  if (layout == nullptr || layout->element.size() != 1) return false;
  const ComponentSpec& component = layout->element[0];
  return component.dtype == DType::bytes && component.shape.rank() == 0;
}

}  // namespace

LocalRunner::LocalRunner(Run& run, std::string stage, std::uint64_t key, const SlotLayout* layout,
                         GroupSizer& sizer, ReadPace& pace, GroupListener& listener)
    : run_(run),
      stage_(std::move(stage)),
      key_(key),
      layout_(layout),
      stores_texts_(is_one_text(layout)),
      sizer_(sizer),
      pace_(pace),
      listener_(listener) {}

void LocalRunner::renew_context(Group& group) {
  group.context.emplace(run_.memory(), key_, run_.retry(), run_.cancelled_flag(),
                        run_.options().trust_data);
}

void LocalRunner::prepare(Group& group) {
  renew_context(group);
  group.reads = reads_block(group.samples());
  group.textual =
      group.reads && group.alike && stores_texts_ && group.items.front().program->textual();
  // Results that are kept until the whole group is done should fit into the nearer caches. Records
  // that are read together should fit with their bytes.
  most_ = !group.reads && in_place()                       ? SIZE_MAX
          : group.reads && !group.textual && !pace_.slow() ? kMostRead
                                                           : kMostKept;
  const std::size_t kept = group.textual                ? 1
                           : in_place() && !group.reads ? std::min(group.count, kChunk)
                                                        : group.count;
  if (group.work.size() < kept) group.work.resize(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    group.work[i].keep = true;
    group.work[i].row = Row();
  }
  group.read_bytes = group.reads || !group.alike ? read_bytes(group.all_items()) : 0;
}

void LocalRunner::begin(Group& group) {
  if (group.reads) {
    submit_reads(group);
  } else if (run_.step_back().alone()) {
    compute(group);
  } else {
    run_.submit([this, &group] { compute(group); }, ops_block(group.samples()));
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
      sizer_.learn(group.count, Clock::now() - start, group.context->allocated(),
                   preferred_group(group.all_items()));
    } catch (...) {
      abandon(group);
      return;
    }
    if (group.context->starved()) {
      group.start_over();
      listener_.group_starved(group);
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

bool LocalRunner::remake(Group& group, std::size_t item, bool& last_try) {
  const std::span<WorkItem> work(group.work.data() + (in_place() ? 0 : item), 1);
  const auto items = group.all_items().subspan(item, 1);
  const Places places = Places(group.places).behind(item);
  work[0].element.clear();
  work[0].status = Status();
  work[0].keep = true;
  work[0].row = Row();
  renew_context(group);
  GroupContext& context = *group.context;
  if (reads_block(items)) read_items(items, work, places, context);
  compute_items(items, work, places, context);
  if (in_place()) store(group, item, work);
  check_views(group, item, work);
  const bool impossible = context.starved_bytes() > run_.memory().limit();
  if (!work[0].status.ok()) work[0].element.clear();  // it may still hold what its ops kept
  if (!context.starved() || impossible || std::exchange(last_try, false)) return true;
  work[0].element.clear();
  work[0].status = Status();
  if (!group.failures.empty() && group.failures.back().first == item) group.failures.pop_back();
  group.starved_all = context.starved_all();
  group.context.reset();
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

std::unique_ptr<GroupRunner> make_local_runner(Run& run, const SegmentWork& segment,
                                               GroupListener& listener) {
  return std::make_unique<LocalRunner>(run, run.stages().stage_name(segment.owner), segment.key,
                                       segment.layout, segment.sizer,
                                       run.stages().learnt(segment.owner).reads, listener);
}

std::unique_ptr<GroupRunner> make_runner(Run& run, const SegmentWork& segment,
                                         GroupListener& listener) {
  if (run.remote() == nullptr) return make_local_runner(run, segment, listener);
  return run.remote()->runner(segment, &make_local_runner, listener);
}

}  // namespace penstock
