// Variables of towers on GPUs, for work on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <penstock/towers/variables.h>

namespace penstock::towers {

/// A tower's variables in host memory: the variables themselves, or for a tower on a GPU copies,
/// which are fetched and given back on request. Used by the same thread as the tower's variables.
class HostSide {
 public:
  /// `store` must be packed and outlive this object.
  HostSide(VariableStore& store, int tower);
  std::span<Variable* const> variables() const noexcept { return variables_; }
  /// Fetches gradients, and the values of variables without gradients, except those of tables that
  /// are stored elsewhere. Waits for the tower's work.
  void fetch();
  /// Copies all values to the tower; those of tables that are stored elsewhere only if `tables`.
  void give(bool tables = true);

  // For a table that is stored elsewhere.
  /// Copies values [rows.size(), …] to the tower's rows.
  void give_rows(std::size_t variable, std::span<const std::int64_t> rows,
                 std::span<const float> values);
  /// Returns in `gradient` the gradients of the step's rows, one after the other. Call it after
  /// `fetch`.
  void fetch_rows(std::size_t variable, std::vector<float>& gradient) const;

 private:
  VariableStore& store_;
  const int tower_;
  std::vector<std::unique_ptr<Variable>> copies_;  // empty on host devices
  std::vector<Variable*> variables_;
};

std::vector<HostSide> host_sides(VariableStore& store);

/// Returns variables in host memory that belong to no tower, with the values of tower 0 and zero
/// gradients.
std::vector<std::unique_ptr<Variable>> copies_of(VariableStore& store);
std::vector<Variable*> view_of(const std::vector<std::unique_ptr<Variable>>& variables);

}  // namespace penstock::towers
