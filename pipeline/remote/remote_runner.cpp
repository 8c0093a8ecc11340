#include "pipeline/remote/remote_runner.h"

#include <algorithm>

#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/run/stage_services.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/node.h"

namespace penstock::remote {
namespace {

std::size_t number_of(const Plan& plan, const Node& node) {
  return static_cast<std::size_t>(plan.find(node) - plan.stages().data());
}

}  // namespace

RemoteRunner::RemoteRunner(WorkerPool& pool, const RemoteServices& services,
                           const SegmentWork& segment, const RemoteWork::MakeLocal& make_local,
                           GroupListener& listener)
    : pool_(pool),
      run_(services),
      segment_(segment),
      stage_(number_of(run_.state.plan(), segment.owner.node)),
      listener_(listener),
      local_(make_local(*this)) {}

// Returns the size of the answer as far as it is known. Byte strings, and elements without a fixed
// size, count as their records.
std::size_t RemoteRunner::answer_bytes(const Group& group) const {
  if (segment_.layout == nullptr) return group.read_bytes;
  const PixelsOfRows pixels = pixels_of(group.all_items(), *segment_.layout);
  std::size_t row = 0;
  bool texts = false;
  for (std::size_t c = 0; c < pixels.size(); ++c) {
    row += pixels[c] ? pixels[c]->count() : segment_.layout->strides[c];
    texts = texts || segment_.layout->element[c].dtype == DType::bytes;
  }
  return row * group.count + (texts ? group.read_bytes : 0);
}

// An element that is made alone decides whether the budget suffices, so it takes its memory here.
void RemoteRunner::begin(Group& group) {
  std::optional<AskBody> body;
  const std::size_t bytes = answer_bytes(group);
  if (bytes <= pool_.most_bytes() && !run_.step_back.alone())
    body = encode_items(segment_, stage_, group.all_items(), pool_.programs(),
                        pool_.most_bytes() - bytes);
  if (body) {
    pool_.add({.owner = this,
               .group = &group,
               .body = std::make_shared<const AskBody>(*std::move(body)),
               .answer_bytes = bytes});
    return;
  }
  pool_.count_here();
  try {
    local_->begin(group);
  } catch (...) {
    pool_.done_here();
    throw;
  }
}

void RemoteRunner::group_done(Group& group) noexcept {
  // Call this first: once the last group has ended, the run may be destroyed, and the pool with it.
  pool_.done_here();
  listener_.group_done(group);
}

void RemoteRunner::group_blocked(Group& group) noexcept {
  pool_.done_here();
  listener_.group_blocked(group);
}

void RemoteRunner::group_lost(Group& group) noexcept {
  pool_.done_here();
  listener_.group_lost(group);
}

void RemoteRunner::make_here(Group& group) noexcept {
  try {
    local_->begin(group);
  } catch (...) {
    broke_down();
    group_lost(group);
  }
}

void RemoteRunner::fail(Group& group, const Status& why) noexcept {
  try {
    throw Error(why.error());
  } catch (...) {
    listener_.broke_down();
  }
  listener_.group_lost(group);
}

// Returns false if the group has ended here.
bool RemoteRunner::prepared_again(Group& group) noexcept {
  try {
    local_->prepare(group);
    return true;
  } catch (...) {
    listener_.broke_down();
    listener_.group_lost(group);
    return false;
  }
}

bool RemoteRunner::take(Group& group, const AnswerHead& head, Incoming& message) noexcept {
  const std::size_t answer_bytes = message.left();
  const bool rows = head.what == AnswerHead::What::rows;
  try {
    if (rows != (segment_.layout != nullptr)) malformed("rows for values");
    StateReader results(head.results);
    if (rows) {
      decode_rows(results, message, group, segment_.owner.label);
    } else {
      decode_values(results, message, group, segment_.owner.label);
    }
    for (const StageWork& work : head.stages)
      if (work.stage >= run_.state.plan().stages().size()) malformed("a stage");
  } catch (...) {
    const bool blocked = group.context->blocked();
    group.start_over();
    if (blocked) {
      listener_.group_blocked(group);
      return true;
    }
    return !prepared_again(group);
  }
  for (const StageWork& work : head.stages) {
    StageCounters& counters = *run_.stages.counters(*run_.state.plan().stages()[work.stage].node);
    add_counters(&counters, work.items, work.bytes, work.busy_ns);
    counters.padding_bytes.fetch_add(work.padding_bytes, std::memory_order_relaxed);
    counters.apart_ns.fetch_add(work.apart_ns, std::memory_order_relaxed);
  }
  run_.retry.add(head.retried);
  // Groups are so small that a worker may have one for each of its threads.
  const std::size_t each = std::max<std::size_t>(answer_bytes / group.count, 1);
  segment_.sizer.follow(group.count,
                        std::min<std::size_t>(head.wanted, pool_.most_bytes_of_group() / each + 1),
                        head.bytes);
  segment_.owner.held.group.raise(group.input_bytes + head.bytes);
  listener_.group_done(group);
  return true;
}

}  // namespace penstock::remote
