#include "pipeline/stages/interleave.h"

#include <algorithm>
#include <array>

#include <penstock/internal/slow_work.h>

#include "pipeline/stage/closed_counts.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/cache.h"

namespace penstock {
namespace {

constexpr int kMostOpen = 1 << 20;   // there is a place for each, open or not
constexpr std::uint64_t kNear = 16;  // elements that are skipped rather than returned to

class InterleaveIterator final : public OrderIterator {
 public:
  InterleaveIterator(OpenInputFn open_input, ExpandFn fn, const Spec& output,
                     InterleaveOptions options, const OpenContext& context, std::string stage)
      : open_input_(std::move(open_input)),
        input_(open_input_(context)),
        fn_(std::move(fn)),
        output_(output),
        block_(static_cast<std::size_t>(options.block)),
        context_(context),
        stage_(std::move(stage)),
        slots_(static_cast<std::size_t>(options.cycle)) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (; returning_ < slots_.size(); ++returning_) return_to_position(slots_[returning_]);
    while (!input_ended_ || open_ > 0) {
      Slot& slot = slots_[current_];
      if (slot.items) {
        const std::size_t count = pull_from(slot, out.first(std::min(out.size(), block_ - taken_)));
        if (count > 0) {
          taken_ += count;
          if (taken_ == block_) advance();
          return count;
        }
        slot.items.reset();
        slot = Slot();
        --open_;
        advance();
      } else if (input_ended_) {
        advance();
      } else if (!fill(slot, out[0])) {
        return 1;  // an error in its place
      }
    }
    return 0;
  }

  // For an open dataset, a state holds the input's position before its element, and the dataset's
  // own position. Restoring makes the dataset again.
  void save(StateWriter& state) const override {
    input_->save(state);
    state.put(current_);
    state.put(taken_);
    state.put(position_);
    state.put(input_ended_ ? 1 : 0);
    closed_->save(state);
    for (const Slot& slot : slots_) {
      state.put(!slot.items ? 0 : slot.failed ? 2 : 1);
      if (!slot.items) continue;
      state.put(slot.position);
      state.put_bytes(slot.before);
      if (!slot.position_within.empty()) {
        state.put_bytes(slot.position_within);
        continue;
      }
      StateWriter items;
      slot.items->save(items);
      state.put_bytes(items.bytes());
    }
  }
  // The input passes by the elements of the open datasets on its way to its own position. So what
  // it keeps is there once, as in a run that was not saved. Datasets that were opened long before
  // that get an input of their own. Only a restored input finds its state's end.
  void restore(StateReader& state) override {
    StateReader input_state = state;
    input_.reset();  // each input is opened when the one before is gone, with what its caches keep
    open_input_(context_.redone())->restore(state);
    current_ = state.get() % slots_.size();
    taken_ = state.get();
    const std::uint64_t position = state.get();
    const bool input_ended = state.get() != 0;
    closed_->restore(state);
    std::vector<Slot*> open;
    for (Slot& slot : slots_) {
      const std::uint64_t kind = state.get();
      if (kind == 0) continue;
      slot.failed = kind == 2;
      slot.position = state.get();
      slot.before = state.get_bytes();
      slot.position_within = state.get_bytes();
      open.push_back(&slot);
    }
    std::ranges::sort(open, {}, &Slot::position);
    for (std::size_t i = 0; i < open.size(); ++i)
      if (open[i]->position >= (i + 1 < open.size() ? open[i + 1]->position : position))
        not_again();
    std::size_t near = open.size();  // the first of the last slots that are near each other
    for (std::uint64_t next = position; near > 0 && next - open[near - 1]->position <= kNear;)
      next = open[--near]->position;
    for (std::size_t i = 0; i < near; ++i) {
      input_ = open_input_(context_.redone());
      bring_input_to(*open[i]);
      open_again(*open[i]);
      input_.reset();
    }
    input_ = open_input_(context_);
    if (near == open.size()) {
      input_->restore(input_state);
    } else {
      bring_input_to(*open[near]);
      for (std::size_t i = near; i < open.size(); ++i) {
        input_->discard(open[i]->position - position_);
        position_ = open[i]->position;
        open_again(*open[i]);
      }
      input_->discard(position - position_);
      std::array<ElementRef, 1> none;  // errors that are skipped may lie in front of the end
      if (input_ended && input_->pull(none) > 0) {
        if (const Error* const error = run_error(none[0])) throw Error(*error);
        not_again();
      }
    }
    position_ = position;
    input_ended_ = input_ended;
    returning_ = 0;
  }

 private:
  struct Slot {
    Dataset dataset{NodePtr()};  // keeps the iterator's nodes alive
    OrderIteratorPtr items;
    std::uint64_t position = 0;  // of its input element
    std::string before;          // the input's state before that element
    // Where the dataset has to continue. It goes there before the next element. Until then it keeps
    // no memory, as the input may need much to come to its own position.
    std::string position_within;
    bool failed = false;  // the dataset threw and cannot continue
  };

  static void return_to_position(Slot& slot) {
    if (!slot.items || slot.failed || slot.position_within.empty()) return;
    StateReader state(slot.position_within);
    slot.items->restore(state);
    slot.position_within.clear();
  }

  void bring_input_to(const Slot& slot) {
    StateReader before(slot.before);
    input_->restore(before);
    position_ = slot.position;
  }

  void open_again(Slot& slot) {
    Slot again;
    ElementRef error;
    if (!fill(again, error) || !again.items) {
      if (is_error(error)) throw Error(error.payload->status.error());
      not_again();
    }
    slot.dataset = std::move(again.dataset);
    slot.items = std::move(again.items);
  }

  [[noreturn]] void not_again() const {
    throw Error(ErrorCode::data_loss, "an open dataset of the state can't be recreated",
                Provenance{{}, -1, -1, stage_});
  }

  void advance() {
    taken_ = 0;
    current_ = (current_ + 1) % slots_.size();
  }

  /// Pulls from a dataset. An exception while it is opened or repeated ends the dataset with one
  /// error.
  std::size_t pull_from(Slot& slot, std::span<ElementRef> out) {
    if (slot.failed) return 0;
    try {
      return slot.items->pull(out);
    } catch (...) {
      if (context_.run.stopping()) throw;
      slot.failed = true;
      out[0] = ref_to(Payload::make(locate(status_from_current_exception(), {}, stage_)),
                      mix_path(context_.path, slot.position));
      return 1;
    }
  }

  /// Opens the next input in `slot`. Returns false if that is an error, which is then in `error`.
  bool fill(Slot& slot, ElementRef& error) {
    StateWriter before;
    input_->save(before);
    std::array<ElementRef, 1> element;
    if (input_->pull(element) == 0) {
      input_ended_ = true;
      return true;
    }
    const std::uint64_t ordinal = element[0].ordinal;
    const std::uint64_t position = position_++;
    Status status = element[0].payload->status;
    if (status.ok()) {
      try {
        slow_work("a user's function is called");
        Dataset dataset = fn_(element[0]);
        check(dataset.node()->spec());
        OpenContext nested = context_.with_path(ordinal).closed_by(closed_);
        nested.nested = true;
        nested.caches = std::make_shared<NestedCaches>();
        slot.items = dataset.node()->open(nested);
        slot.dataset = std::move(dataset);
        slot.position = position;
        slot.before = before.take();
        ++open_;
        return true;
      } catch (...) {
        status = locate(status_from_current_exception(), origin_of(element[0]), stage_);
      }
    }
    error = ref_to(Payload::make(std::move(status)), ordinal);
    return false;
  }

  void check(const Spec& spec) const {
    bool fits = spec.size() == output_.size();
    for (std::size_t i = 0; fits && i < spec.size(); ++i) {
      fits = spec[i].name == output_[i].name && spec[i].dtype == output_[i].dtype &&
             output_[i].shape.accepts(spec[i].shape);
    }
    if (!fits) {
      bad_stage(stage_, "the function made a dataset of " + spec.to_string() + ", declared was " +
                            output_.to_string());
    }
  }

  OpenInputFn open_input_;
  OrderIteratorPtr input_;
  ExpandFn fn_;
  const Spec& output_;
  std::size_t block_;
  OpenContext context_;
  const std::shared_ptr<ClosedCounts> closed_ = std::make_shared<ClosedCounts>(context_);
  std::string stage_;
  std::vector<Slot> slots_;
  std::size_t current_ = 0;
  std::size_t taken_ = 0;  // elements taken in a row from the current slot
  std::size_t open_ = 0;
  std::uint64_t position_ = 0;
  std::size_t returning_ = SIZE_MAX;  // the first slot of a restored run that may not have returned
  bool input_ended_ = false;
};

class InterleaveNode final : public Node {
 public:
  InterleaveNode(NodePtr source, FlatMapFn fn, Spec output, InterleaveOptions options)
      : Node({source}, std::move(output), kUnknown), fn_(std::move(fn)), options_(options) {}

  std::string name() const override { return options_.cycle == 1 ? "flat_map" : "interleave"; }
  bool holds_values() const override { return true; }
  void describe(Description& description) const override {
    description.add("cycle", options_.cycle);
    description.add("block", options_.block);
  }
  Pending find_pending() const override { return Pending::fallible; }
  bool wants_values(std::size_t) const override { return input().pending() == Pending::fallible; }
  bool seeded() const override { return true; }
  bool deterministic() const override { return false; }
  /// Open datasets are made again.
  Resume find_resume() const override { return input().replay(); }

  OrderIteratorPtr open(const OpenContext& context) const override {
    auto open_input = [this](const OpenContext& here) {
      OrderIteratorPtr source = input().open(here);
      if (input().pending() == Pending::none) return source;
      // References to names or numbers are read in place. Heavy work goes to the arena.
      OpenContext where = here;
      where.nested = here.nested || input().pending() == Pending::infallible;
      return here.run.values(*this, std::move(source), where);
    };
    return open_interleave(
        open_input, [this](const ElementRef& item) { return fn_(item.payload->element); }, spec(),
        options_, context, context.run.stage_name(*this));
  }

 private:
  FlatMapFn fn_;
  InterleaveOptions options_;
};

}  // namespace

OrderIteratorPtr open_interleave(OpenInputFn open_input, ExpandFn fn, const Spec& output,
                                 InterleaveOptions options, const OpenContext& context,
                                 std::string stage) {
  return std::make_unique<InterleaveIterator>(std::move(open_input), std::move(fn), output, options,
                                              context, std::move(stage));
}

NodePtr make_interleave(NodePtr input, FlatMapFn fn, Spec output, InterleaveOptions options) {
  const char* stage = options.cycle == 1 ? "flat_map" : "interleave";
  if (!fn) bad_stage(stage, "no function was given");
  if (options.cycle <= 0)
    bad_stage(stage, "cycle must be positive, not " + std::to_string(options.cycle));
  if (options.cycle > kMostOpen) {
    bad_stage(stage, "cycle must be at most " + std::to_string(kMostOpen) + ", not " +
                         std::to_string(options.cycle));
  }
  if (options.block <= 0)
    bad_stage(stage, "block must be positive, not " + std::to_string(options.block));
  return std::make_shared<InterleaveNode>(std::move(input), std::move(fn), std::move(output),
                                          options);
}

}  // namespace penstock
