#include "pipeline/remote/programs.h"

#include <array>

#include "pipeline/remote/messages.h"

namespace penstock::remote {
namespace {

constexpr int kMostSteps = 1000;                                   // of one program
constexpr std::size_t kBytesOfStep = sizeof(Program::Step) + 512;  // with its names and spec

}  // namespace

std::optional<std::uint64_t> ProgramNumbers::number(const Program& program) {
  if (!program.immortal()) return std::nullopt;  // of a nested dataset: it ends with its items
  MutexLock lock(mutex_);
  const std::optional<std::uint64_t> number = find(program, kMostSteps);
  if (number && definitions_[*number].forbidden) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> ProgramNumbers::find(const Program& program, int depth) {
  const auto known = numbers_.find(&program);
  if (known != numbers_.end()) return known->second;
  std::optional<std::uint64_t>& number = numbers_[&program];
  const std::optional<StageServices::Recipe> recipe = stages_.recipe_of(program);
  if (!recipe || depth == 0) return number;
  Definition definition{*recipe};
  if (recipe->parent != nullptr) {
    const std::optional<std::uint64_t> parent = find(*recipe->parent, depth - 1);
    if (!parent) return number;
    definition.parent = *parent + 1;
    definition.forbidden = definitions_[*parent].forbidden;
  }
  number = definitions_.size();
  definitions_.push_back(definition);
  return number;
}

std::size_t ProgramNumbers::count() const {
  MutexLock lock(mutex_);
  return definitions_.size();
}

void ProgramNumbers::define(std::uint64_t number, StateWriter& to) const {
  MutexLock lock(mutex_);
  const Definition& definition = definitions_[number];
  to.put(definition.recipe.stage);
  to.put(definition.recipe.first ? 1 : 0);
  to.put(definition.parent);
}

void ProgramNumbers::forbid(std::uint64_t number) {
  MutexLock lock(mutex_);
  for (std::size_t i = number; i < definitions_.size(); ++i) {
    const std::uint64_t parent = definitions_[i].parent;
    if (i == number || (parent > 0 && definitions_[parent - 1].forbidden))
      definitions_[i].forbidden = true;
  }
}

void ProgramsByNumber::add(StateReader& definition) {
  if (known_.size() >= kMost) malformed("the number of programs");
  const std::vector<PlannedStage>& stages = plan_.stages();
  StageServices::Recipe recipe;
  recipe.stage = definition.get();
  recipe.first = definition.get() != 0;
  const std::uint64_t parent = definition.get();
  if (recipe.stage >= stages.size() || parent > known_.size()) malformed("a program");
  if (recipe.first && parent > 0) malformed("a program that begins twice");
  const Node& node = *stages[recipe.stage].node;
  Known made;
  if (parent > 0) {
    const Known& before = known_[parent - 1];
    if (before.program == nullptr || before.program->steps().size() >= kMostSteps) {
      known_.push_back(made);
      return;
    }
    recipe.parent = before.program;
    made.gathers = before.gathers;
    made.value = before.value;
    made.gives = before.gives;
    made.identity = before.identity;
    if (node.inputs().empty() || !fits(*before.gives, node.inputs()[0]->spec()))
      malformed("a program of stages that do not follow each other");
  }
  const std::array<std::uint64_t, 4> what{recipe.stage, recipe.first ? 1U : 0U, made.identity.low,
                                          made.identity.high};
  made.identity = element_key(what.data(), sizeof what);
  // A program has a copy of all steps of its parent.
  charge(recipe.parent != nullptr ? recipe.parent->steps().size() + 1 : 1);
  made.program = stages_.made_by(recipe);
  if (made.program == nullptr) {
    known_.push_back(Known());
    return;
  }
  if (recipe.first) {
    made.gives = &node.spec();
    if (made.program->gather() != nullptr) made.gathers = &node;
  } else {
    if (recipe.parent == nullptr) made.value = made.gives = &node.inputs()[0]->spec();
    // A predicate or a key function leaves elements unchanged.
    if (made.program->steps().back().spec.size() > 0) made.gives = &node.spec();
  }
  known_.push_back(made);
}

/// Charges the run's memory for a program of so many steps, which is kept as long as the run.
void ProgramsByNumber::charge(std::size_t steps) {
  const std::uint64_t bytes = sizeof(Known) + sizeof(Program) + steps * kBytesOfStep;
  if (!memory_.charge(bytes)) throw memory_.no_room_for(bytes);
}

const Program& ProgramsByNumber::unfinished(const Program& program, std::size_t stage,
                                            const PixelsOfRows& pixels) {
  std::unique_ptr<const Program>& known = unfinished_[{&program, stage}];
  if (!known) {
    charge(program.steps().size());
    std::unique_ptr<Program> made = remote::unfinished(program, pixels);
    made->make_immortal();
    known = std::move(made);
  }
  return *known;
}

const ProgramsByNumber::Known& ProgramsByNumber::at(std::uint64_t number) const {
  if (number >= known_.size()) malformed("a program that was not told of");
  return known_[number];
}

bool fits(const Spec& given, const Spec& wanted) {
  if (given.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const ComponentSpec& a = given[i];
    const ComponentSpec& b = wanted[i];
    if (a.name != b.name || a.dtype != b.dtype) return false;
    if (b.shape.is_static() && !(a.shape == b.shape)) return false;
  }
  return true;
}

}  // namespace penstock::remote
