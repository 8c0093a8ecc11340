// The groups that a session makes: what of their results is computed, and how they are answered.
#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "pipeline/remote/packed.h"
#include "pipeline/remote/session_work.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"

namespace penstock::remote {
namespace {

/// Fewer bytes fit one or two packets, compressed or not.
constexpr std::size_t kLeastToPack = 4096;
/// Memory for answers that are under way, beside gaps (kMostBytesUnderWay of the pool).
constexpr std::size_t kMostShared = std::size_t{48} << 20;

}  // namespace

using Clock = std::chrono::steady_clock;

// Results are made where a run of this machine can read them.
void Session::share_memory() {
  {
    const std::lock_guard lock(mutex_);
    if (link_ == nullptr || !link_->on_this_machine()) return;
  }
  checks_ = false;
  const std::size_t bytes = std::min<std::uint64_t>(kMostShared, run_->memory().limit() / 4);
  if (!run_->memory().charge(bytes)) return;
  shared_memory_ = SharedMemory::make(bytes);
  if (!shared_memory_) return run_->memory().discharge(bytes);
  const std::lock_guard lock(mutex_);
  if (link_ != nullptr) link_->share(shared_memory_);
}

// Values that are computed from u8 are left to the run, because they take more bytes.
void Session::leave_unfinished(Work& work, const PlannedStage& stage) {
  const auto rows = static_cast<std::int64_t>(work.count);
  Asked& asked = work.asked;
  const SlotLayout finished(stage.batches->element, rows);
  work.pixels = pixels_of(asked.items, finished);
  work.layout.emplace(spec_of(work.pixels, stage.batches->element), rows);
  if (std::ranges::none_of(work.pixels, [](const auto& of) { return of.has_value(); })) return;
  const Program& program =
      programs_->unfinished(*asked.items.front().program, asked.stage, work.pixels);
  for (ElementRef& item : asked.items) item.program = ProgramPtr(&program);
  // A group of several programs keeps elements of the same graph that are finished.
  for (ElementKey& key : asked.keys) {
    const std::array<std::uint64_t, 3> all{key.low, key.high, 1};
    key = element_key(all.data(), sizeof all);
  }
}

Session::WorkPtr Session::under_way(Group& group) noexcept {
  const std::lock_guard lock(mutex_);
  return under_way_.at(&group);
}

// Groups under way keep the session alive, so this erases the group last.
void Session::finish(const WorkPtr& work) noexcept {
  if (work->awaited) withdraw(*work);
  const std::lock_guard lock(mutex_);
  if (under_way_.erase(&work->group) > 0 && work->awaited) --shared_;
}

void Session::group_done(Group& group) noexcept {
  const WorkPtr work = under_way(group);
  if (!work->awaited || made_some(*work)) complete(work);
}

void Session::complete(const WorkPtr& work) noexcept {
  AnswerHead head{.id = work->id, .what = AnswerHead::What::no_memory};
  try {
    if (!stopping() && !work->broken) {
      if (work->slot) {
        head.what = AnswerHead::What::rows;
        encode_rows(work->count, work->failed(), *work->slot, work->pixels, work->results);
      } else {
        std::uint64_t bytes = 0;
        for (const WorkItem& item : work->values())
          bytes += item.status.ok() ? payload_bytes(item.element) + 1024 : 0;
        if (work->charge.take(run_->memory(), bytes)) {
          head.what = AnswerHead::What::values;
          encode_values(work->values(), work->results);
        }
      }
    }
    head.wanted = work->sizer->size();
    head.bytes = work->group.context ? work->group.context->allocated() : 0;
    if (work->awaited && !work->whole) {
      // Elements that were there already say nothing about the best size of a group.
      if (work->computed == 0) head.wanted = 0;
      head.bytes = work->allocated / std::max<std::uint64_t>(1, work->computed) * work->count;
    }
  } catch (...) {
    head.what = AnswerHead::What::no_memory;
    work->results = Results();
  }
  if (head.what != AnswerHead::What::no_memory) {
    head.shared = work->had;
    served_.groups.fetch_add(1, std::memory_order_relaxed);
    served_.elements.fetch_add(work->count, std::memory_order_relaxed);
  }
  try {
    answer(work, std::move(head));
  } catch (...) {
    close();
  }
  finish(work);
}

// For a moment, the compressed and the original bytes are both in memory. If there is no room for
// both, the values are sent uncompressed.
void Session::pack_values(Work& work, AnswerHead& head) {
  std::vector<std::span<const std::byte>>& values = work.results.values;
  std::size_t bytes = 0;
  for (const auto& piece : values) bytes += piece.size();
  if (bytes < kLeastToPack || !work.charge_of_packed.take(run_->memory(), most_packed(bytes)))
    return;
  std::optional<Packed> packed;
  try {
    packed = pack(values);
  } catch (const std::bad_alloc&) {
    return;
  }
  if (!packed) return;
  work.packed = std::move(packed->bytes);
  head.unpacked = bytes;
  head.blocks = std::move(packed->sizes);
  values = {std::span<const std::byte>(work.packed)};
}

void Session::answer(const WorkPtr& work, AnswerHead head) {
  if (checks_) head.checksum = checksum_of(work->results.head, work->results.values);
  if (lz4_) pack_values(*work, head);
  const auto took = Clock::now() - work->began;
  head.work_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
  head.stages = work_since_last(head.retried);
  head.results = std::move(work->results.head);
  StateWriter bytes;
  put(bytes, head);
  send(message(bytes.bytes(), work->results.values, work));
}

std::vector<StageWork> Session::work_since_last(std::uint64_t& retried) {
  std::vector<StageWork> result;
  const std::lock_guard lock(mutex_);
  const std::uint64_t retries = run_->retry().count();
  retried = retries - std::exchange(told_retries_, retries);
  for (std::size_t i = 0; i < told_.size(); ++i) {
    const StageCounters& counters = *run_->stages().counters(*run_->plan().stages()[i].node);
    const StageWork now{.stage = i,
                        .items = counters.items.load(std::memory_order_relaxed),
                        .bytes = counters.bytes.load(std::memory_order_relaxed),
                        .padding_bytes = counters.padding_bytes.load(std::memory_order_relaxed),
                        .busy_ns = counters.busy_ns.load(std::memory_order_relaxed),
                        .apart_ns = counters.apart_ns.load(std::memory_order_relaxed)};
    StageWork& told = told_[i];
    if (now.items == told.items && now.busy_ns == told.busy_ns) continue;
    result.push_back({.stage = i,
                      .items = now.items - told.items,
                      .bytes = now.bytes - told.bytes,
                      .padding_bytes = now.padding_bytes - told.padding_bytes,
                      .busy_ns = now.busy_ns - told.busy_ns,
                      .apart_ns = now.apart_ns - told.apart_ns});
    told = now;
  }
  return result;
}

void Session::group_starved(Group& group) noexcept {
  const WorkPtr work = under_way(group);
  if (!work->awaited) return answer_without(work, AnswerHead::What::no_memory);
  {
    const std::lock_guard lock(mutex_);
    work->broken = true;
  }
  if (made_some(*work)) complete(work);
}

void Session::group_lost(Group& group) noexcept {
  group_starved(group);
}

void Session::answer_without(const WorkPtr& work, AnswerHead::What what) noexcept {
  work->results = Results();
  try {
    answer(work, {.id = work->id, .what = what});
  } catch (...) {
    close();
  }
  finish(work);
}

}  // namespace penstock::remote
