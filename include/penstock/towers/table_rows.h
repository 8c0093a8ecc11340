// The rows of a table that a step uses.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace penstock::towers {

/// The rows of a table that lies elsewhere, such as on a parameter server. Its rows are fetched
/// before the first layer of a step that reads them. The gradient is meaningful only in these rows.
/// The tower's thread uses it.
class TableRows {
 public:
  /// A callable that puts the values of rows where layers read them. The rows are different and in
  /// rising order.
  using Fetch = std::function<void(std::span<const std::int64_t> rows)>;

  /// Makes a table whose rows `fetch` brings.
  explicit TableRows(Fetch fetch) : fetch_(std::move(fetch)) {}

  /// Begins a step, which has read no rows.
  void begin_step() noexcept {
    in_step_ = true;
    rows_.clear();
  }
  /// Ends the step. Later reads, to evaluate, use the values that are there.
  void end_step() noexcept { in_step_ = false; }
  /// Returns true between `begin_step` and `end_step`.
  bool in_step() const noexcept { return in_step_; }

  /// Fetches the rows, of a table of `count`, that layers are about to read. Ids outside of the
  /// table are left out. Returns the rows that were fetched now, and not before in this step.
  /// Throws what `fetch` throws.
  std::span<const std::int64_t> read(std::span<const std::int64_t> ids, std::int64_t count);
  /// Returns the rows that were read in this step, each once, in rising order.
  std::span<const std::int64_t> rows() const noexcept { return rows_; }

 private:
  const Fetch fetch_;
  bool in_step_ = false;
  std::vector<std::int64_t> rows_, fresh_, merged_;
};

}  // namespace penstock::towers
