// Names of the classes that labels count. They are stored with a run's variables.
#pragma once

#include <string>
#include <vector>

#include <penstock/dataset.h>

namespace penstock::towers {

/// Returns the names of the classes that the labels of `data` count, as they are stored in files:
/// bytes that are not UTF-8 become U+FFFD. Empty if the data do not name their classes. Throws
/// Error{invalid_argument} if two names are equal after that.
std::vector<std::string> classes_of(const Dataset& data);

/// Returns `data` with its component "label" renumbered to count `classes`, which are matched by
/// name. Returns `data` unchanged if its labels count these already, or if either side has no
/// names. `what` names the data in messages: "the evaluation data". Throws Error{invalid_argument},
/// which names the class, for a class of the data that is not in `classes`.
Dataset with_classes(const Dataset& data, const std::vector<std::string>& classes,
                     const std::string& what);

/// Convert class names to the JSON array that a file's metadata holds under kClasses, and back.
/// `classes_in` throws Error{data_loss} for any other text.
inline constexpr const char* kClasses = "classes";
std::string text_of_classes(const std::vector<std::string>& classes);
std::vector<std::string> classes_in(const std::string& text);

}  // namespace penstock::towers
