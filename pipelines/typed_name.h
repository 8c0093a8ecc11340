// Names of columns and features with their types, as flags and TOML give them.
#pragma once

#include <optional>
#include <string>

#include <penstock/dtype.h>

namespace penstock::tool {

/// A column or feature that is asked for.
struct TypedName {
  std::string name{};
  std::optional<DType> dtype{};
  std::optional<std::string> default_value{};  ///< replaces a missing value
};

/// Parses NAME, NAME:DTYPE or NAME:DTYPE=DEFAULT. Names may have colons and equals signs. Throws
/// Error{invalid_argument} for an unknown dtype.
///
///     parse_typed_name("size:i64=0");  // {"size", DType::i64, "0"}
TypedName parse_typed_name(const std::string& text);

}  // namespace penstock::tool
