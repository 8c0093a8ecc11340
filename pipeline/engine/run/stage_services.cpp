#include "pipeline/engine/run/stage_services.h"

#include <algorithm>
#include <array>
#include <utility>

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
BufferPtr wait_for(const Memory& memory, MemoryLine& line, const RunServices& stages,
                   std::uint64_t bytes, const Take& take) {
  for (;;) {
    const std::uint64_t seen = memory.releases();
    if (BufferPtr buffer = take()) return buffer;
    stages.check_stop();
    if (bytes > memory.limit() || !line.wait(seen)) throw memory.no_room_for(bytes);
  }
}

/// Memory for streams. Their threads may wait for it.
class StreamMemory final : public ReadContext {
 public:
  StreamMemory(Memory& memory, Retry& retry, MemoryLine& line, const RunServices& stages,
               bool trust_data)
      : memory_(memory), retry_(retry), line_(line), stages_(stages), trust_data_(trust_data) {}
  bool again(const Error& error, int tries) override { return retry_.again(error, tries, true); }
  bool trust_data() const noexcept override { return trust_data_; }
  BufferPtr allocate(std::size_t bytes) override {
    BufferPtr buffer = wait_for(memory_, line_, stages_, bytes, [&] {
      std::uint64_t promised = 0;
      return memory_.allocate(bytes, promised, true);
    });
    buffer->held_mark()->hold(memory_.held().here_or_elsewhere());
    return buffer;
  }

 private:
  Memory& memory_;
  Retry& retry_;
  MemoryLine& line_;
  const RunServices& stages_;
  const bool trust_data_;
};

}  // namespace

StageServices::StageServices(const Services& services)
    : run_(services),
      stream_memory_(std::make_unique<StreamMemory>(run_.memory, run_.retry, run_.line, *this,
                                                    run_.state.options().trust_data)) {
  for (std::size_t i = 0; i < run_.state.plan().stages().size(); ++i) {
    counters_.push_back(std::make_unique<StageCounters>());
  }
}

OrderIteratorPtr StageServices::values(const Node& owner, OrderIteratorPtr input,
                                       const OpenContext& context, bool ordered) {
  return run_.segments.values(this->owner(owner), std::move(input), context, ordered);
}

OrderIteratorPtr StageServices::batches(const Node& node, OrderIteratorPtr input,
                                        const OpenContext& context, bool drop_remainder) {
  const Plan& plan = run_.state.plan();
  return run_.segments.batches(owner(node), number_of(plan, *plan.find(node)), std::move(input),
                               context, drop_remainder);
}

ElementRef StageServices::made(const ElementRef& item, const OpenContext& context) {
  return run_.segments.made(item, context);
}

bool StageServices::skips() const noexcept {
  return run_.state.skips();
}

std::uint64_t StageServices::seed() const noexcept {
  return run_.state.options().seed;
}

bool StageServices::trust_data() const noexcept {
  return run_.state.options().trust_data;
}

// Stages that draw are numbered from the source on. Stages that draw nothing do not count, so they
// change no numbers.
std::uint32_t StageServices::rng_op(const Node& node) {
  constexpr std::uint32_t kNested = 0x80000000U;
  const PlannedStage* const own = run_.state.plan().find(node);
  if (own == nullptr) return kNested + static_cast<std::uint32_t>(random_stages(node));
  std::uint32_t draws = 0;
  for (const PlannedStage& stage : run_.state.plan().stages()) {
    draws += stage.node->random() ? 1 : 0;
    if (&stage == own) break;
  }
  return draws;
}

StageCounters* StageServices::counters(const Node& node) {
  if (const PlannedStage* const stage = run_.state.plan().find(node)) {
    return counters_[number_of(run_.state.plan(), *stage)].get();
  }
  MutexLock lock(mutex_);
  std::unique_ptr<StageCounters>& counters = nested_counters_[node.name()];
  if (!counters) counters = std::make_unique<StageCounters>();
  return counters.get();
}

// The number of a stage of the plan, or the name of a stage of nested datasets.
std::string StageServices::key_of(const StageCounters& stage) const {
  const auto is_stage = [&](const auto& counters) { return counters.get() == &stage; };
  const auto found = std::ranges::find_if(counters_, is_stage);
  if (found != counters_.end()) return std::to_string(found - counters_.begin());
  MutexLock lock(mutex_);
  for (const auto& [name, counters] : nested_counters_)
    if (is_stage(counters)) return name;
  return {};
}

const StageCounters& StageServices::count_again(const std::string& stage, Passed passed,
                                                std::uint64_t epoch) {
  StageCounters* counters = nullptr;
  for (std::size_t i = 0; i < counters_.size(); ++i)
    if (std::to_string(i) == stage) counters = counters_[i].get();
  if (counters == nullptr) {
    MutexLock lock(mutex_);
    std::unique_ptr<StageCounters>& nested = nested_counters_[stage];
    if (!nested) nested = std::make_unique<StageCounters>();
    counters = nested.get();
  }
  run_.ledger.restore(SkipLedger::Account{counters, epoch_key(seed(), epoch)}, passed);
  return *counters;
}

SegmentOwner StageServices::owner(const Node& node) {
  StageCounters& stage = *counters(node);
  std::string label = stage_name(node);
  MutexLock lock(mutex_);
  HeldOfSegment& held = held_.try_emplace(&stage, run_.memory.held()).first->second;
  return {node, std::move(label), stage, learnt_[&stage], held};
}

std::string StageServices::stage_name(const Node& node) {
  const PlannedStage* const stage = run_.state.plan().find(node);
  return stage != nullptr ? stage->label : node.name();
}

const Program* StageServices::intern(const Node& node, const Program* parent,
                                     std::unique_ptr<Program> candidate) {
  MutexLock lock(mutex_);
  // A stage may have one program that gathers and another for its step, so the gather op is part of
  // the key.
  std::unique_ptr<const Program>& known = programs_[{&node, parent, candidate->gather()}];
  if (known) return known.get();
  const PlannedStage* const stage = run_.state.plan().find(node);
  if (stage != nullptr)
    recipes_[candidate.get()] = {number_of(run_.state.plan(), *stage), candidate->steps().empty(),
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
  if (recipe->first && !run_.state.plan().stages()[recipe->stage].node->first_program(*this))
    return std::nullopt;
  return recipe;
}

const Program* StageServices::made_by(const Recipe& recipe) {
  const Node& node = *run_.state.plan().stages()[recipe.stage].node;
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
  return run_.state.cancelled() || run_.activity.told_to_stop();
}

void StageServices::left_out(StageCounters& stage, const Error& error, const OpenContext& context) {
  run_.ledger.leave_out({&stage, epoch_key(seed(), context.epoch), context.counted}, error);
}

void StageServices::give_up(const Error& error) {
  run_.ledger.end(error);
}

std::uint64_t StageServices::memory_limit() const noexcept {
  return run_.memory.limit();
}

std::uint64_t StageServices::most_kept() const noexcept {
  return run_.state.plan().shares().kept;
}

BufferPtr StageServices::charge(std::uint64_t bytes) {
  return wait_for(run_.memory, run_.line, *this, bytes, [&] { return run_.memory.charged(bytes); });
}

void StageServices::save_passed(StateWriter& state, std::optional<std::uint64_t> key) const {
  for (const auto& counters : counters_) {
    const Passed passed = run_.ledger.before(counters.get(), key);
    state.put(passed.seen);
    state.put(passed.bad);
  }
}

void StageServices::restore_passed(StateReader& state) {
  for (const auto& counters : counters_) {
    const std::uint64_t seen = state.get();
    run_.ledger.restore(counters.get(), {seen, state.get()});
  }
}

std::vector<StageStats> StageServices::stats() const {
  std::vector<StageStats> result;
  for (const PlannedStage& stage : run_.state.plan().stages()) {
    const StageCounters& counters = *counters_[number_of(run_.state.plan(), stage)];
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
