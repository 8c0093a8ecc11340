// The parameters that a source, a stage or a run takes, and the values they were given. One table
// describes them for the command line, for TOML and for the help.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/file_system.h>

#include "tools/penstock/support/numbers.h"

namespace penstock {
class Dataset;
class Spec;
}  // namespace penstock

namespace penstock::tool {

class Settings;
struct ImageChain;

enum class ValueType { boolean, integer, bytes, number, text, budget, extent, list };

using List = std::vector<std::string>;
/// integer and bytes hold an int64; text and budget a string.
using Value = std::variant<bool, std::int64_t, double, std::string, Extent, List>;

struct Parameter {
  std::string name;
  ValueType type = ValueType::integer;
  std::string help;
  bool required = false;
  double least = std::numeric_limits<double>::lowest();  ///< of numbers, bytes and extents
  double most = std::numeric_limits<double>::max();
  List choices = {};  ///< of text; empty: any
};

/// How a source's flag takes what it reads.
enum class FlagForm {
  paths,    ///< GLOB...: any number, for the parameter `paths`
  pattern,  ///< DIR|GLOB: one, for the first parameter; a shell may have made several of it
  parts,    ///< A[,B]: one, whose parts are the parameters in their order
  range,    ///< N|START,STOP[,STEP]
  text,     ///< one, for the first parameter
};

/// What a stage is to the flags and commands that concern only some.
enum class StageRole {
  other,
  decode,   ///< decodes images; image ops imply it
  element,  ///< works on elements one by one, but in no chain of image ops
  batch,    ///< what --drop-remainder is of
};

/// What flags and commands want to know of a kind.
struct KindTraits {
  StageRole role = StageRole::other;
  FlagForm form = FlagForm::paths;  ///< of a source
  std::string output = {};          ///< the parameter that names a file which it writes
  bool packed_images = false;       ///< without `record_bytes` it reads what `penstock pack` wrote
};

/// A kind of source or stage, and what it does: opens a source, adds a stage, or extends the chain
/// of image ops that neighbouring stages make, behind elements of the spec. They throw Error as the
/// library does, and UsageError for what only the program knows.
struct Kind : KindTraits {
  using Open = Dataset (*)(const Settings&, const FileSystemPtr&);
  using Add = Dataset (*)(const Dataset&, const Settings&);
  using Extend = void (*)(ImageChain&, const Settings&, const Spec&);

  Kind(std::string called, std::string about, std::vector<Parameter> takes)
      : name(std::move(called)), help(std::move(about)), parameters(std::move(takes)) {}
  Kind(std::string called, std::string about, std::vector<Parameter> takes, Open opens,
       KindTraits traits = {})
      : KindTraits(std::move(traits)),
        name(std::move(called)),
        help(std::move(about)),
        parameters(std::move(takes)),
        open(opens) {}
  Kind(std::string called, std::string about, std::vector<Parameter> takes, Add adds,
       KindTraits traits = {})
      : KindTraits(std::move(traits)),
        name(std::move(called)),
        help(std::move(about)),
        parameters(std::move(takes)),
        add(adds) {}
  Kind(std::string called, std::string about, std::vector<Parameter> takes, Extend extends,
       KindTraits traits = {})
      : KindTraits(std::move(traits)),
        name(std::move(called)),
        help(std::move(about)),
        parameters(std::move(takes)),
        extend(extends) {}

  bool is_image() const noexcept { return extend != nullptr; }
  std::string flag() const;
  const Parameter* find(std::string_view parameter) const noexcept;

  std::string name;  ///< as in TOML: "random_resized_crop"; its flag is "--random-resized-crop"
  std::string help;
  std::vector<Parameter> parameters;  ///< in the order in which a flag's value gives them
  Open open = nullptr;
  Add add = nullptr;
  Extend extend = nullptr;
};

/// Values for the parameters of one kind. Holds a pointer to the kind, which must outlive it.
class Settings {
 public:
  explicit Settings(const Kind& kind) : kind_(&kind), values_(kind.parameters.size()) {}

  const Kind& kind() const noexcept { return *kind_; }
  bool has(std::string_view name) const;
  /// Throws UsageError, with the parameter's name, if there is no such parameter, or if the value's
  /// type or range is wrong.
  void set(std::string_view name, Value value);
  /// `text` as a value of the parameter's type.
  void set_text(std::string_view name, std::string_view text);
  /// Parameters separated by commas, by position and then as name=value; a boolean's name alone
  /// says true: "1000,seed=3".
  void set_positional(std::string_view text);
  /// Throws UsageError that names the first required parameter without a value.
  void require_all() const;

  /// The value, or `fallback` where none was given.
  template <typename T>
  T get(std::string_view name, T fallback) const {
    const Value* value = find(name);
    return value == nullptr ? std::move(fallback) : std::get<T>(*value);
  }
  /// What was given, in the kind's order.
  std::vector<std::pair<const Parameter*, Value>> given() const;

 private:
  std::size_t require(std::string_view name) const;
  const Value* find(std::string_view name) const;

  const Kind* kind_;
  std::vector<std::optional<Value>> values_;
};

/// "an integer", "a size such as 256 or 375x500": what a value of this type looks like.
std::string_view describe(ValueType type) noexcept;

}  // namespace penstock::tool
