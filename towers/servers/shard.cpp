#include "towers/servers/shard.h"

#include <algorithm>
#include <string>
#include <utility>

#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/control_groups.h>

#include "towers/strategies/host_side.h"

namespace penstock::towers {
namespace {

[[noreturn]] void refuse_piece(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

/// Returns the bytes that this process may have at most.
double memory_of_machine() {
  const double here =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double limit = ControlGroups().memory_limit();
  return limit > 0 ? std::min(limit, here) : here;
}

std::vector<std::unique_ptr<Variable>> variables_of(const std::vector<ServedVariable>& served) {
  std::vector<std::unique_ptr<Variable>> variables;
  const double most = memory_of_machine();
  double bytes = 0;
  for (const ServedVariable& one : served) {
    if (one.shape.volume() < 0) refuse_piece("variable " + one.name + " has no size");
    bytes += static_cast<double>(one.shape.volume()) * sizeof(float);
    // With overcommitment, nothing else stops a chief that asks for more.
    if (bytes > most)
      throw Error(ErrorCode::resource_exhausted,
                  "variable " + one.name + " and those before it take more than all memory");
    if (one.by_rows && one.shape.rank() < 1) refuse_piece("variable " + one.name + " has no rows");
    Variable& variable = *variables.emplace_back(std::make_unique<Variable>());
    variable.name = one.name;
    variable.trainable = one.trainable;
  }
  return variables;
}

std::vector<SharedValues> values_of(const std::vector<ServedVariable>& served,
                                    const std::vector<std::unique_ptr<Variable>>& variables) {
  std::vector<SharedValues> values;
  values.reserve(served.size());
  for (std::size_t i = 0; i < served.size(); ++i) {
    SharedValues& one = values.emplace_back(static_cast<std::size_t>(served[i].shape.volume()));
    variables[i]->value = Array::view(one.write().data(), served[i].shape);
  }
  return values;
}

UpdateOptions update_of(const Beginning& beginning) {
  return {make_optimizer(beginning.optimizer),
          Schedule::parse(beginning.schedule).over(beginning.planned_steps), 0};
}

}  // namespace

Shard::Shard(const Beginning& beginning)
    : variables_(variables_of(beginning.variables)),
      values_(values_of(beginning.variables, variables_)),
      changed_(variables_.size(), beginning.step),
      updater_(view_of(variables_), update_of(beginning)),
      step_(beginning.step) {
  for (const ServedVariable& one : beginning.variables) {
    if (!index_.emplace(one.number, numbers_.size()).second)
      refuse_piece("variable " + std::to_string(one.number) + " is there twice");
    numbers_.push_back(one.number);
    by_rows_.push_back(one.by_rows ? 1 : 0);
  }
}

std::size_t Shard::index_of(std::uint32_t number) const {
  const auto found = index_.find(number);
  if (found == index_.end())
    refuse_piece("variable " + std::to_string(number) + " is not on this server");
  return found->second;
}

std::size_t Shard::row_size(std::size_t index) const {
  const Array& value = variables_[index]->value;
  return value.shape().rank() < 1 ? 1 : static_cast<std::size_t>(value.row_size());
}

void Shard::check(const Piece& piece) const {
  const Variable& variable = *variables_[index_of(piece.variable)];
  const auto bad = [&](const std::string& why) { refuse_piece("variable " + variable.name + why); };
  if (piece.rows == nullptr) {
    if (piece.count != variable.value.size())
      bad(" has " + std::to_string(variable.value.size()) + " values, not " +
          std::to_string(piece.count));
    return;
  }
  if (variable.value.shape().rank() < 1) bad(" has no rows");
  const std::size_t row = row_size(index_of(piece.variable));
  if (piece.count % std::max<std::size_t>(1, row) != 0 ||
      piece.count / std::max<std::size_t>(1, row) != piece.row_count)
    bad(": " + std::to_string(piece.row_count) + " rows of " + std::to_string(row) +
        " values are not " + std::to_string(piece.count));
  std::int64_t last = -1;
  for (std::size_t r = 0; r < piece.row_count; ++r) {
    if (piece.rows[r] <= last || piece.rows[r] >= variable.value.dim(0))
      bad(": row " + std::to_string(piece.rows[r]) + " is out of order, or there is none");
    last = piece.rows[r];
  }
}

std::span<float> Shard::remembered(std::size_t index, int slot) {
  const std::span<Array> slots = updater_.slots(index).arrays;
  if (slot < 0 || static_cast<std::size_t>(slot) >= slots.size())
    refuse_piece("the optimizer remembers no " + std::to_string(slot) + " of variable " +
                 variables_[index]->name);
  return slots[static_cast<std::size_t>(slot)].values();
}

std::span<float> Shard::write(std::size_t index) {
  const std::span<float> values = values_[index].write();
  Array& view = variables_[index]->value;
  if (values.data() != view.data()) view = Array::view(values.data(), Shape(view.shape()));
  return values;
}

void Shard::give(int slot, const Piece& piece) {
  check(piece);
  const std::size_t index = index_of(piece.variable);
  const std::span<float> into = slot == -1 ? write(index) : remembered(index, slot);
  if (piece.rows == nullptr) {
    std::copy_n(piece.values, piece.count, into.data());
    return;
  }
  const std::size_t row = row_size(index);
  for (std::size_t r = 0; r < piece.row_count; ++r)
    std::copy_n(piece.values + r * row, row,
                into.data() + static_cast<std::size_t>(piece.rows[r]) * row);
}

void Shard::apply(const Piece& piece) {
  const std::size_t index = index_of(piece.variable);
  Variable& variable = *variables_[index];
  changed_[index] = step_ + 1;
  if (!variable.trainable) {
    give(-1, piece);
    return;
  }
  write(index);
  if (piece.rows != nullptr) {
    apply_rows(index, piece);
  } else {
    variable.gradient = Array::view(piece.values, variable.value.shape());
    variable.has_gradient = true;
    updater_.apply(variable, index, step_);
    variable.has_gradient = false;
  }
}

void Shard::apply_rows(std::size_t index, const Piece& piece) {
  const std::size_t size = row_size(index);
  const Shape shape{static_cast<std::int64_t>(size)};
  const std::span<Array> slots = updater_.slots(index).arrays;
  const UpdateOptions& options = updater_.options();
  const auto rate = static_cast<float>(options.schedule.at(step_));
  Variable row;
  row.has_gradient = true;
  std::vector<Array> row_slots(slots.size());
  for (std::size_t r = 0; r < piece.row_count; ++r) {
    const std::size_t at = static_cast<std::size_t>(piece.rows[r]) * size;
    row.value = Array::view(variables_[index]->value.data() + at, shape);
    row.gradient = Array::view(piece.values + r * size, shape);
    for (std::size_t s = 0; s < slots.size(); ++s)
      row_slots[s] = Array::view(slots[s].data() + at, shape);
    options.optimizer->apply(row, row_slots, rate, step_);
  }
}

void Shard::give_changed(std::uint64_t have, Takers& taker) {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (by_rows_[i] != 0 || (have != kHasNothing && changed_[i] <= have)) continue;
    taker.share(numbers_[i], values_[i].share(), variables_[i]->value.size());
  }
}

void Shard::copy_rows(std::uint32_t number, std::span<const std::int64_t> rows,
                      std::span<float> values) const {
  const std::size_t index = index_of(number);
  const Variable& variable = *variables_[index];
  const std::size_t size = row_size(index);
  if (variable.value.shape().rank() < 1 || values.size() != rows.size() * size)
    refuse_piece("variable " + variable.name + ": " + std::to_string(values.size()) +
                 " values are not those of " + std::to_string(rows.size()) + " rows");
  for (const std::int64_t row : rows)
    if (row < 0 || row >= variable.value.dim(0))
      refuse_piece("variable " + variable.name + " has no row " + std::to_string(row));
  float* to = values.data();
  for (const std::int64_t row : rows)
    to = std::copy_n(variable.value.data() + static_cast<std::size_t>(row) * size, size, to);
}

void Shard::keep() {
  kept_.resize(variables_.size());
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    kept_[i].values = values_[i].share();
    kept_[i].slots.resize(updater_.slots(i).arrays.size());
    for (std::size_t s = 0; s < kept_[i].slots.size(); ++s) {
      const std::span<const float> from = remembered(i, static_cast<int>(s));
      kept_[i].slots[s].assign(from.begin(), from.end());
    }
  }
}

void Shard::snapshot(int slot, Takers& taker) const {
  if (kept_.empty() && !variables_.empty()) refuse_piece("nothing was kept on this server");
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const std::size_t count = variables_[i]->value.size();
    if (slot == -1) {
      taker.share(numbers_[i], kept_[i].values, count);
      continue;
    }
    const auto at = static_cast<std::size_t>(slot);
    if (slot < -1 || (variables_[i]->trainable && at >= kept_[i].slots.size()))
      refuse_piece("the optimizer remembers no " + std::to_string(slot) + " of variable " +
                   variables_[i]->name);
    if (at >= kept_[i].slots.size()) continue;  // variables that are not trainable have no slots
    const std::vector<float>& from = kept_[i].slots[at];
    if (float* to = taker.place(numbers_[i], from.size())) std::ranges::copy(from, to);
  }
}

}  // namespace penstock::towers
