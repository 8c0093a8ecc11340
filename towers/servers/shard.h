// The variables of one server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <penstock/towers/optimizer.h>

#include "towers/servers/parameter_server.h"
#include "towers/servers/shared_values.h"
#include "towers/train/updater.h"

namespace penstock::towers {

/// Variables, and their optimizer's state. It counts the updates, and remembers for each variable
/// the last update that changed it. Not synchronised.
///
/// Each row of a table is updated like a variable of its own that gets gradients now and then. If
/// an update leaves out a row, the row's optimizer state does not change; it decays only when the
/// row comes again. So `momentum` and `adam` are the lazy variants, as tfa's LazyAdam; Adam's bias
/// corrections count all updates.
class Shard {
 public:
  /// Throws Error{invalid_argument} that names a variable that occurs twice or has no size, and
  /// what make_optimizer and Schedule::parse throw.
  explicit Shard(const Beginning& beginning);

  std::uint64_t step() const noexcept { return step_; }
  std::size_t size() const noexcept { return variables_.size(); }
  const Variable& variable(std::size_t index) const { return *variables_[index]; }
  std::uint32_t number(std::size_t index) const { return numbers_[index]; }
  bool by_rows(std::size_t index) const { return by_rows_[index] != 0; }
  const UpdateOptions& options() const noexcept { return updater_.options(); }

  /// Returns the index of the variable with this number. Throws Error{invalid_argument}, which
  /// names the number, if it is not here.
  std::size_t index_of(std::uint32_t number) const;
  /// Throws Error{invalid_argument}, which names the variable and says what is wrong with the
  /// piece.
  void check(const Piece& piece) const;

  /// Sets values (slot -1), or optimizer state. Throws what `check` throws, and the same for an
  /// unknown slot.
  void give(int slot, const Piece& piece);

  /// Applies a gradient; or sets values, if the variable is not trainable. Call `commit` after the
  /// last piece of an update. REQUIRES: the piece was checked.
  void apply(const Piece& piece);
  void commit() noexcept { ++step_; }

  /// Gives the values that changed in updates after `have`, except tables.
  void give_changed(std::uint64_t have, Takers& taker);
  /// Throws Error{invalid_argument}, which names the table and says what is wrong.
  void copy_rows(std::uint32_t number, std::span<const std::int64_t> rows,
                 std::span<float> values) const;

  /// Keeps the current state for `snapshot`.
  void keep();
  /// Throws Error{invalid_argument} for an unknown slot, or if nothing was kept.
  void snapshot(int slot, Takers& taker) const;

 private:
  void apply_rows(std::size_t index, const Piece& piece);
  std::size_t row_size(std::size_t index) const;
  /// Returns the optimizer's state of a variable. Throws Error{invalid_argument}.
  std::span<float> remembered(std::size_t index, int slot);
  /// Returns the values for writing.
  std::span<float> write(std::size_t index);

  struct Kept {
    std::shared_ptr<const float> values{};
    std::vector<std::vector<float>> slots{};
  };

  std::vector<std::unique_ptr<Variable>> variables_;
  // One for each variable, which is a view of it.
  std::vector<SharedValues> values_;
  std::vector<std::uint32_t> numbers_;  // one for each variable
  std::vector<char> by_rows_;           // one for each variable
  // For each variable: the last update that changed it.
  std::vector<std::uint64_t> changed_;
  std::map<std::uint32_t, std::size_t> index_;  // by number
  Updater updater_;
  std::uint64_t step_ = 0;
  std::vector<Kept> kept_;  // one for each variable
};

}  // namespace penstock::towers
