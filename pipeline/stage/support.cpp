#include "pipeline/stage/support.h"

#include <algorithm>

namespace penstock {

Status locate(Status status, const Provenance& where, const std::string& stage) noexcept {
  if (status.ok()) return status;
  try {
    const Error& error = status.error();
    Provenance full = error.where();
    if (full.shard.empty()) full.shard = where.shard;
    if (full.offset < 0) full.offset = where.offset;
    if (full.index < 0) full.index = where.index;
    if (full.stage.empty()) full.stage = stage;
    if (full.length < 0 && full.offset == where.offset) full.length = where.length;
    return Error(error.code(), error.cause(), std::move(full), error.original());
  } catch (const std::bad_alloc&) {
    return status;  // an error without its place is better than none
  }
}

Provenance origin_of(const ElementRef& item) {
  if (item.program && item.program->source() != nullptr) {
    return item.program->source()->locate(item.index);
  }
  if (!item.payload) return {};
  const Payload& payload = *item.payload;
  if (payload.origin) return payload.origin->source()->locate(payload.index);
  if (payload.shard) {
    return {*payload.shard, payload.offset, static_cast<std::int64_t>(payload.index), {}};
  }
  // The place of a tuple or batch is that of its first part.
  return payload.children.empty() ? Provenance() : origin_of(payload.children.front());
}

ElementRef error_at(const ElementRef& item, Status status, const std::string& stage) {
  return ref_to(Payload::make(locate(std::move(status), origin_of(item), stage)), item.ordinal);
}

std::string why_not_kept(const RunServices& run, bool too_much) {
  const std::string budget =
      "the memory budget of " + std::to_string(run.memory_limit()) + " bytes";
  return too_much ? "a stage may keep three quarters of " + budget
                  : budget + " has no room for more";
}

ProgramPtr own_program(const OpenContext& context, const Node& node, const Program* parent,
                       std::unique_ptr<Program> program) {
  if (context.nested) return ProgramPtr(program.release());
  program->make_immortal();
  return ProgramPtr(context.run.intern(node, parent, std::move(program)));
}

ProgramPtr own_first_program(const OpenContext& context, const Node& node) {
  return own_program(context, node, nullptr, node.first_program(context.run));
}

namespace {

/// Appends one op to the programs of the items that pass. There are few parent programs, so the
/// iterator remembers them.
class ExtendIterator final : public OrderIterator {
 public:
  ExtendIterator(OrderIteratorPtr input, const OpenContext& context, const Node& node,
                 Program::Step step)
      : input_(std::move(input)), context_(context), node_(&node), step_(std::move(step)) {}

  std::size_t pull(std::span<ElementRef> out) override;
  std::optional<std::uint64_t> size() const override { return input_->size(); }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override;
  void discard(std::uint64_t count) override { input_->discard(count); }
  void save(StateWriter& state) const override { input_->save(state); }
  void restore(StateReader& state) override { input_->restore(state); }

 private:
  void extend(std::span<ElementRef> items);
  ProgramPtr find(const ProgramPtr& parent);

  OrderIteratorPtr input_;
  OpenContext context_;
  const Node* node_;
  Program::Step step_;
  std::vector<std::pair<ProgramPtr, ProgramPtr>> known_;  // parent, child; last used first
};

std::size_t ExtendIterator::pull(std::span<ElementRef> out) {
  const std::size_t count = input_->pull(out);
  extend(out.first(count));
  return count;
}

void ExtendIterator::fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) {
  input_->fetch(positions, out);
  extend(out);
}

void ExtendIterator::extend(std::span<ElementRef> items) {
  for (std::size_t i = 0; i < items.size();) {
    if (is_error(items[i])) {
      ++i;
      continue;
    }
    // Neighbours have the same parent.
    const ProgramPtr parent = items[i].program;
    const ProgramPtr child = find(parent);
    do {
      items[i++].program = child;
    } while (i < items.size() && items[i].program == parent && !is_error(items[i]));
  }
}

ProgramPtr ExtendIterator::find(const ProgramPtr& parent) {
  constexpr std::size_t kRemembered = 32;
  auto found = std::find_if(known_.begin(), known_.end(),
                            [&](const auto& pair) { return pair.first == parent; });
  if (found == known_.end()) {
    if (known_.size() >= kRemembered) known_.pop_back();
    // A counted parent belongs to a nested dataset. Its child lives as long as its items.
    OpenContext owner = context_;
    owner.nested = context_.nested || (parent && !parent->immortal());
    found = known_.insert(known_.end(),
                          {parent, own_program(owner, *node_, parent.get(),
                                               std::make_unique<Program>(parent.get(), step_))});
  }
  std::rotate(known_.begin(), found, found + 1);
  return known_.front().second;
}

}  // namespace

OrderIteratorPtr extend(OrderIteratorPtr input, const OpenContext& context, const Node& node) {
  Program::Step step = node.step(context.run).value();
  if (ProgramPtr* const program = input->common_program()) {
    *program = own_program(context, node, program->get(),
                           std::make_unique<Program>(program->get(), std::move(step)));
    return input;
  }
  return std::make_unique<ExtendIterator>(std::move(input), context, node, std::move(step));
}

}  // namespace penstock
