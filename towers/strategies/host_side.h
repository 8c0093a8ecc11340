// Variables of towers on GPUs, for what is done on the host.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "towers/variables.h"

namespace penstock::towers {

/// A tower's variables in host memory: themselves, or for a tower on a GPU copies that are fetched
/// and given back when asked. Used as the tower's variables are.
class HostSide {
 public:
  /// `store` is packed and outlives it.
  HostSide(VariableStore& store, int tower);
  std::span<Variable* const> variables() const noexcept { return variables_; }
  /// Gradients, and values that are no gradient's business. Waits for the tower's work.
  void fetch();
  /// All values go to the tower.
  void give();

 private:
  VariableStore& store_;
  const int tower_;
  std::vector<std::unique_ptr<Variable>> copies_;  // none on host devices
  std::vector<Variable*> variables_;
};

std::vector<HostSide> host_sides(VariableStore& store);

/// Variables in host memory that are no tower's: with the values of tower 0, and gradients of
/// zeros.
std::vector<std::unique_ptr<Variable>> copies_of(VariableStore& store);
std::vector<Variable*> view_of(const std::vector<std::unique_ptr<Variable>>& variables);

}  // namespace penstock::towers
