// The parameters of a source, a stage or a run, and the values given for them. One table describes
// them for the command line, for TOML and for the help.
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

#include "pipelines/format.h"
#include "pipelines/numbers.h"

namespace penstock {
class Dataset;
class Spec;
}  // namespace penstock

namespace penstock::tool {

class Settings;
struct ImageChain;

enum class ValueType { boolean, integer, bytes, number, text, budget, extent, list };

using List = std::vector<std::string>;
/// The value of a parameter. The types integer and bytes hold an int64; text and budget a string.
using Value = std::variant<bool, std::int64_t, double, std::string, Extent, List>;

struct Parameter {
  std::string name;
  ValueType type = ValueType::integer;
  std::string help;
  bool required = false;
  double least = std::numeric_limits<double>::lowest();  ///< for numbers, bytes and extents
  double most = std::numeric_limits<double>::max();
  List choices = {};          ///< for text; empty: any text
  std::string form = "FILE";  ///< of a text without choices, for --help: DIR, URL
};

/// The form in which a source's flag takes its value.
enum class FlagForm {
  paths,    ///< GLOB...: any number, for the parameter `paths`
  pattern,  ///< DIR|GLOB: one, for the first parameter; a shell may expand it to several
  parts,    ///< A[,B]: one, whose parts are the parameters in order
  range,    ///< N|START,STOP[,STEP]
  text,     ///< one, for the first parameter
};

/// The role of a stage, for flags and commands that concern only stages of one role.
enum class StageRole {
  other,
  decode,   ///< decodes images; image ops imply it
  element,  ///< works on single elements, but is not part of a chain of image ops
  batch,    ///< makes batches; --drop-remainder applies to it
  shuffle,  ///< changes the order
};

/// Properties of a kind that flags and commands use.
struct KindTraits {
  StageRole role = StageRole::other;
  FlagForm form = FlagForm::paths;  ///< for a source
  std::string output = {};          ///< the parameter that names a file to write
  bool packed_images = false;       ///< without `record_bytes`, reads files of `penstock pack`
  /// The formats of the files that a source reads; empty: no files, or files of any format.
  std::vector<Format> formats = {};
};

/// A kind of source or stage, with a function that applies it. The function opens a source, adds a
/// stage, or extends the chain of image ops that neighbouring stages form; the Spec describes the
/// elements before that chain. These functions throw the library's Error, and UsageError for
/// conditions that only the program knows.
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
  /// True for a source that reads files of this format.
  bool reads(Format format) const noexcept;
  std::string flag() const;
  const Parameter* find(std::string_view parameter) const noexcept;

  std::string name;  ///< as in TOML: "random_resized_crop"; its flag is "--random-resized-crop"
  std::string help;
  std::vector<Parameter> parameters;  ///< in the order in which a flag's value gives them
  Open open = nullptr;
  Add add = nullptr;
  Extend extend = nullptr;
};

/// The values of one kind's parameters. Holds a pointer to the kind, which must outlive it.
class Settings {
 public:
  explicit Settings(const Kind& kind) : kind_(&kind), values_(kind.parameters.size()) {}

  const Kind& kind() const noexcept { return *kind_; }
  bool has(std::string_view name) const;
  /// Sets a parameter. Throws UsageError, with the parameter's name, if there is no such parameter
  /// or if the value's type or range is wrong.
  void set(std::string_view name, Value value);
  /// Sets a parameter to `text`, read as a value of the parameter's type.
  void set_text(std::string_view name, std::string_view text);
  /// Sets parameters from a text such as "1000,seed=3". They are separated by commas: first by
  /// position, then as name=value. The name of a boolean alone means true. If the kind's only
  /// parameter is a list, the whole text is that list: "image,label".
  void set_positional(std::string_view text);
  /// Returns the paths and patterns of a source as they were given; none if it reads no files.
  List paths() const;
  /// Throws UsageError that names the first required parameter without a value.
  void require_all() const;

  /// Returns the value, or `fallback` if none was given.
  template <typename T>
  T get(std::string_view name, T fallback) const {
    const Value* value = find(name);
    return value == nullptr ? std::move(fallback) : std::get<T>(*value);
  }
  /// Returns the values that were given, in the order of the kind's parameters.
  std::vector<std::pair<const Parameter*, Value>> given() const;

 private:
  std::size_t require(std::string_view name) const;
  const Value* find(std::string_view name) const;

  const Kind* kind_;
  std::vector<std::optional<Value>> values_;
};

/// Describes the values of this type: "an integer", "a size such as 256 or 375x500".
std::string_view describe(ValueType type) noexcept;

}  // namespace penstock::tool
