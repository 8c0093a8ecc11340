// A file that holds the variables of the best evaluation so far.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <penstock/towers/trainer.h>

namespace penstock::towers {

/// A file with the best variables so far, see `export_variables`. The file itself records how good
/// they are. So it holds the best of all that were offered, whenever the process is killed. Not
/// synchronised.
class BestExport {
 public:
  /// Opens the file. If `resume` is true, an existing file counts. Otherwise the run is a new one,
  /// and its first offer replaces the file. Throws Error{invalid_argument} if a file counts but
  /// does not record how good it is by this measure, and what `check_writable` throws.
  BestExport(std::string path, Measure by, bool resume);

  /// Writes the variables durably, completely or not at all, if they are better than all before.
  /// Returns true if it wrote them. An evaluation whose figure is not finite is never better.
  /// `classes` are the names of the classes that labels count.
  bool offer(const Evaluation& evaluation, const VariableStore& variables,
             const std::vector<std::string>& classes = {});
  /// Returns the figure of the variables in the file; nothing if there is none yet.
  std::optional<double> best() const noexcept { return best_; }

 private:
  const std::string path_;
  const Measure by_;
  std::optional<double> best_;
};

}  // namespace penstock::towers
