// The check of labels in the map that makes a model's input, where an error has its record.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/dataset.h>
#include <penstock/element.h>

namespace penstock::towers {

/// A function that refuses labels a model has no class for. Thread-safe.
class LabelCheck {
 public:
  /// `data`: the elements that it is called with. `classes`: labels are below it; 0: any are.
  LabelCheck(const Dataset& data, std::int64_t classes);

  /// Throws Error{mismatch} for a label that is none. If the label of `in` is a part of its record
  /// by itself, such as a member of a tar shard, the error names that part.
  void operator()(const Element& in, std::int64_t label) const;

 private:
  std::int64_t classes_;
  std::string extension_;
};

/// Returns `data` with that check as a stage of its own. Data whose source names its classes stay
/// as they are, since their labels count these.
Dataset with_label_check(const Dataset& data, std::int64_t classes);

}  // namespace penstock::towers
