#include "pipeline/engine/run/stage_services.h"

#include <algorithm>
#include <array>

#include "pipeline/engine/run/run.h"
#include "pipeline/engine/segment/batch_results.h"
#include "pipeline/engine/segment/inline_values.h"
#include "pipeline/engine/segment/ordered_values.h"
#include "pipeline/engine/segment/parallel_segment.h"
#include "pipeline/stages/cache.h"

namespace penstock {
namespace {

int random_stages(const Node& node) {
  int count = node.random() ? 1 : 0;
  for (const NodePtr& input : node.inputs()) count += random_stages(*input);
  return count;
}

std::size_t number_of(const Plan& plan, const PlannedStage& stage) noexcept {
  return static_cast<std::size_t>(&stage - plan.stages().data());
}

/// Calls `take` until it returns a buffer of `bytes`. Waits for room in between.
template <typename Take>
BufferPtr wait_for(Run& run, std::uint64_t bytes, const Take& take) {
  for (QuietTimer timer;;) {
    if (BufferPtr buffer = take()) return buffer;
    run.stages().check_stop();
    if (bytes > run.memory().limit() || !run.wait_for_memory(timer))
      throw run.memory().no_room_for(bytes);
  }
}

/// Memory for streams. Their threads may wait for it.
class StreamMemory final : public ReadContext {
 public:
  explicit StreamMemory(Run& run) : run_(run) {}
  bool again(const Error& error, int tries) override {
    return run_.retry().again(error, tries, true);
  }
  bool trust_data() const noexcept override { return run_.options().trust_data; }
  BufferPtr allocate(std::size_t bytes) override {
    return wait_for(run_, bytes, [&] {
      std::uint64_t promised = 0;
      return run_.memory().allocate(bytes, promised);
    });
  }

 private:
  Run& run_;
};

ErrorAccount account_of(Run& run, const Node& owner, const OpenContext& context) {
  return {
      run.ledger(),
      {run.stages().counters(owner), epoch_key(run.options().seed, context.epoch), context.counted},
      run.stages().skips()};
}

}  // namespace

StageServices::StageServices(Run& run)
    : run_(run), stream_memory_(std::make_unique<StreamMemory>(run)) {
  for (std::size_t i = 0; i < run_.plan().stages().size(); ++i) {
    counters_.push_back(std::make_unique<StageCounters>());
  }
}

OrderIteratorPtr StageServices::values(const Node& owner, OrderIteratorPtr input,
                                       const OpenContext& context, bool ordered) {
  const ErrorAccount account = account_of(run_, owner, context);
  if (context.nested) {
    return std::make_unique<InlineValues>(run_, std::move(input), account,
                                          epoch_key(seed(), context.epoch));
  }
  return std::make_unique<ParallelSegment>(
      run_, owner, std::move(input), context,
      std::make_unique<OrderedValues>(account, ordered, run_.waker()), OrderedValues::kMostInGroup);
}

OrderIteratorPtr StageServices::batches(const Node& node, OrderIteratorPtr input,
                                        const OpenContext& context, bool drop_remainder) {
  const std::shared_ptr<SlotPool> slots = run_.slots().pool(node, context.place.path);
  const PlannedStage& stage = *run_.plan().find(node);
  BatchAssembler assembler(account_of(run_, node, context), drop_remainder,
                           mix_path(context.path, number_of(run_.plan(), stage)), run_.waker());
  if (run_.share() && !context.nested)
    assembler.make_only({*run_.share(), context.epoch, stage.batches->rows});
  return std::make_unique<ParallelSegment>(
      run_, node, std::move(input), context,
      std::make_unique<BatchResults>(run_, node, slots, std::move(assembler)),
      BatchResults::kMostInGroup);
}

ElementRef StageServices::made(const ElementRef& item, const OpenContext& context) {
  WorkItem work;
  make_here(run_, epoch_key(seed(), context.epoch), {&item, 1}, {&work, 1});
  return value_of(item, work);
}

bool StageServices::skips() const noexcept {
  return run_.options().on_error == OnError::skip;
}

std::uint64_t StageServices::seed() const noexcept {
  return run_.options().seed;
}

bool StageServices::trust_data() const noexcept {
  return run_.options().trust_data;
}

// Stages that draw are numbered from the source on. Stages that draw nothing do not count, so they
// change no numbers.
std::uint32_t StageServices::rng_op(const Node& node) {
  constexpr std::uint32_t kNested = 0x80000000U;
  const PlannedStage* const own = run_.plan().find(node);
  if (own == nullptr) return kNested + static_cast<std::uint32_t>(random_stages(node));
  std::uint32_t draws = 0;
  for (const PlannedStage& stage : run_.plan().stages()) {
    draws += stage.node->random() ? 1 : 0;
    if (&stage == own) break;
  }
  return draws;
}

StageCounters* StageServices::counters(const Node& node) {
  if (const PlannedStage* const stage = run_.plan().find(node)) {
    return counters_[number_of(run_.plan(), *stage)].get();
  }
  MutexLock lock(mutex_);
  std::unique_ptr<StageCounters>& counters = nested_counters_[node.name()];
  if (!counters) counters = std::make_unique<StageCounters>();
  return counters.get();
}

StageServices::Learnt& StageServices::learnt(const Node& owner) {
  const StageCounters* stage = counters(owner);
  MutexLock lock(mutex_);
  return learnt_[stage];
}

std::string StageServices::stage_name(const Node& node) {
  const PlannedStage* const stage = run_.plan().find(node);
  return stage != nullptr ? stage->label : node.name();
}

const Program* StageServices::intern(const Node& node, const Program* parent,
                                     std::unique_ptr<Program> candidate) {
  MutexLock lock(mutex_);
  // A stage may have one program that gathers and another for its step, so the gather op is part of
  // the key.
  std::unique_ptr<const Program>& known = programs_[{&node, parent, candidate->gather()}];
  if (known) return known.get();
  const PlannedStage* const stage = run_.plan().find(node);
  if (stage != nullptr)
    recipes_[candidate.get()] = {number_of(run_.plan(), *stage), candidate->steps().empty(),
                                 parent};
  known = std::move(candidate);
  return known.get();
}

std::optional<StageServices::Recipe> StageServices::recipe_of(const Program& program) {
  std::optional<Recipe> recipe;
  {
    MutexLock lock(mutex_);
    const auto found = recipes_.find(&program);
    if (found == recipes_.end()) return std::nullopt;
    recipe = found->second;
  }
  // A stage may have other programs, which read what it wrote here.
  if (recipe->first && !run_.plan().stages()[recipe->stage].node->first_program(*this))
    return std::nullopt;
  return recipe;
}

const Program* StageServices::made_by(const Recipe& recipe) {
  const Node& node = *run_.plan().stages()[recipe.stage].node;
  std::unique_ptr<Program> program;
  if (recipe.first) {
    program = node.first_program(*this);
  } else if (std::optional<Program::Step> step = node.step(*this)) {
    program = std::make_unique<Program>(recipe.parent, *std::move(step));
  }
  if (!program) return nullptr;
  program->make_immortal();
  return intern(node, recipe.parent, std::move(program));
}

std::shared_ptr<CacheStore> StageServices::cache(const Node& node, const OpenContext& context) {
  MutexLock lock(mutex_);
  std::shared_ptr<CacheStore>& store =
      context.caches ? context.caches->stores[&node] : caches_[&node];
  if (!store) store = std::make_shared<CacheStore>(context.place);
  return store;
}

bool StageServices::stopping() const noexcept {
  return run_.cancelled() || run_.activity().told_to_stop();
}

void StageServices::left_out(const Error& error) {
  run_.ledger().surfaced(error);
}

void StageServices::give_up(const Error& error) {
  run_.ledger().end(error);
}

std::uint64_t StageServices::memory_limit() const noexcept {
  return run_.memory().limit();
}

BufferPtr StageServices::charge(std::uint64_t bytes) {
  return wait_for(run_, bytes, [&] { return run_.memory().charged(bytes); });
}

void StageServices::save_passed(StateWriter& state, std::optional<std::uint64_t> key) const {
  for (const auto& counters : counters_) {
    const Passed passed = run_.ledger().before(counters.get(), key);
    state.put(passed.seen);
    state.put(passed.bad);
  }
}

void StageServices::restore_passed(StateReader& state) {
  for (const auto& counters : counters_) {
    const std::uint64_t seen = state.get();
    run_.ledger().restore(counters.get(), {seen, state.get()});
  }
}

std::vector<StageStats> StageServices::stats() const {
  std::vector<StageStats> result;
  for (const PlannedStage& stage : run_.plan().stages()) {
    const StageCounters& counters = *counters_[number_of(run_.plan(), stage)];
    StageStats stats;
    stats.name = stage.label;
    stats.items = counters.items.load(std::memory_order_relaxed);
    stats.bytes = counters.bytes.load(std::memory_order_relaxed);
    stats.padding_bytes = counters.padding_bytes.load(std::memory_order_relaxed);
    stats.busy_s = 1e-9 * static_cast<double>(counters.busy_ns.load(std::memory_order_relaxed));
    stats.apart_s = 1e-9 * static_cast<double>(counters.apart_ns.load(std::memory_order_relaxed));
    const std::array<std::pair<const char*, double>, 3> waits{{
        {"input", 1e-9 * static_cast<double>(counters.wait_input_ns.load())},
        {"output", 1e-9 * static_cast<double>(counters.wait_output_ns.load())},
        {"memory", 1e-9 * static_cast<double>(counters.wait_memory_ns.load())},
    }};
    double longest = 1e-3;
    for (const auto& [what, seconds] : waits) {
      stats.wait_s += seconds;
      if (seconds > longest) {
        longest = seconds;
        stats.waits_on = what;
      }
    }
    result.push_back(std::move(stats));
  }
  return result;
}

}  // namespace penstock
