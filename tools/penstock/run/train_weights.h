// The weights of the rows that `penstock train` reads.
#pragma once

#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/iterator.h>
#include <penstock/towers/class_weights.h>

namespace penstock::tool {

/// Returns elements whose weight (towers::kWeight) is the number in the component `column`, which
/// may be text. Text that is not a number fails the element. Throws UsageError if the column is
/// missing, or if it does not hold a single number.
Dataset with_weight_column(const Dataset& stored, const std::string& column);

/// Returns the weights of classes. `text` has one of three forms:
///
/// - "1,2.5,1": one for each class, in the order of labels
///
/// - "balanced": rows / (classes * rows of the class), for the classes that occur in `stored`.
///   Reads all of `stored` once, with `options`.
///
/// - the name of a file with a line NAME,WEIGHT for each class, or LABEL,WEIGHT if the data do not
///   name their classes. Names and weights may have quotes as in CSV, and the file a byte order
///   mark.
///
/// Throws UsageError that names the mistake, and the errors of reading.
std::vector<towers::ClassWeight> parse_class_weights(const std::string& text, const Dataset& stored,
                                                     const RunOptions& options);

}  // namespace penstock::tool
