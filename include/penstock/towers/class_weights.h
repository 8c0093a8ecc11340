// Weights of rows, by their classes.
#pragma once

#include <string>
#include <vector>

#include <penstock/dataset.h>

namespace penstock::towers {

/// The weight of the rows of one class.
struct ClassWeight {
  /// The class's name, or its label where classes have no names.
  std::string name;
  double weight = 1;  ///< at least 0
};

/// Returns "cat 1, dog 2.5", with all digits; an empty text for no weights.
std::string text_of_weights(const std::vector<ClassWeight>& weights);

/// Returns `data` as a run takes it. Labels count `classes`, as `with_classes` makes them. The
/// component kWeight is multiplied by the weight of the label's class, and added where it is
/// missing. A weight that is negative or not finite fails the element (ErrorCode::mismatch). `what`
/// names the data in errors. Throws Error{invalid_argument} naming an unknown class, and for data
/// without labels.
Dataset labelled(const Dataset& data, const std::vector<std::string>& classes,
                 const std::vector<ClassWeight>& weights, const std::string& what);

}  // namespace penstock::towers
