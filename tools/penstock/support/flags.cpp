#include "tools/penstock/support/flags.h"

#include <algorithm>

#include <penstock/internal/find_files.h>

#include "pipelines/kinds.h"
#include "pipelines/remote.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

constexpr int kMany = 1 << 20;

/// Runs `parse`, and gives its errors the flag as an address.
template <typename Parse>
void at_flag(const std::string& flag, Parse parse) {
  try {
    parse();
  } catch (const UsageError& error) {
    throw error.at(flag);
  }
}

/// An option whose callback runs at each of its places on the command line, in their order.
template <typename Callback>
CLI::Option* in_order(CLI::App& app, const std::string& flag, const std::string& help,
                      Callback callback) {
  CLI::Option* option = app.add_option(
      flag,
      [flag, callback](const CLI::results_t& values) {
        at_flag(flag, [&] { callback(values); });
        return true;
      },
      help);
  return option->trigger_on_parse()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::string in_capitals(std::string word) {
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return word;
}

std::string value_name(const Kind& kind) {
  std::string name;
  for (const Parameter& parameter : kind.parameters) {
    if (parameter.type == ValueType::boolean || (!parameter.required && !name.empty())) break;
    name += (name.empty() ? "" : ",") + (parameter.type == ValueType::extent ? "N|HxW"
                                         : parameter.type == ValueType::list
                                             ? "NAME,..."
                                             : in_capitals(parameter.name));
  }
  const bool required = !kind.parameters.empty() && kind.parameters.front().required;
  return required || name.empty() ? name : "[" + name + "]";
}

std::string source_value_name(const Kind& kind) {
  switch (kind.form) {
    case FlagForm::paths:
      return "GLOB...";
    case FlagForm::pattern:
      return "DIR|GLOB";
    case FlagForm::parts: {
      std::string name = in_capitals(kind.parameters.front().name);
      for (std::size_t i = 1; i < kind.parameters.size(); ++i)
        name += "[," + in_capitals(kind.parameters[i].name) + "]";
      return name;
    }
    case FlagForm::range:
      return "N|START,STOP[,STEP]";
    case FlagForm::text:
      return in_capitals(kind.parameters.front().name);
  }
  return {};
}

/// Whether a shell may have made several values of the one that is wanted.
bool is_of_files(FlagForm form) {
  return form != FlagForm::range && form != FlagForm::text;
}

void set_parts(Settings& source, const std::string& text) {
  const std::vector<std::string> parts = split_paths(*default_file_system(), text);
  if (parts.size() > source.kind().parameters.size())
    throw UsageError("expected " + source_value_name(source.kind()) + ", got " + in_quotes(text));
  for (std::size_t i = 0; i < parts.size(); ++i)
    source.set(source.kind().parameters[i].name, parts[i]);
}

/// The first stage of that role.
const Kind& kind_of(StageRole role) {
  const std::vector<Kind>& kinds = stage_kinds();
  return *std::find_if(kinds.begin(), kinds.end(),
                       [role](const Kind& kind) { return kind.role == role; });
}

void set_range(Settings& source, const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > 3) throw UsageError("expected N or START,STOP[,STEP], got " + in_quotes(text));
  if (parts.size() == 1) return source.set_text("stop", parts[0]);
  source.set_text("start", parts[0]);
  source.set_text("stop", parts[1]);
  if (parts.size() == 3) source.set_text("step", parts[2]);
}

}  // namespace

PipelineFlags::PipelineFlags(CLI::App& app, const std::string& default_seed, FindSource find)
    : find_(find) {
  if (find_ != nullptr)
    app.add_option("path", bare_paths_,
                   "files or a folder; their contents choose the source, as if its flag were given")
        ->type_name("PATH");
  app.add_option("--pipeline", pipeline_file_, "read the pipeline from FILE instead of flags")
      ->type_name("FILE.toml")
      ->group("Source (one of)");
  add_sources(app);
  add_source_options(app);
  add_stages(app);
  add_run(app, default_seed);
}

void PipelineFlags::add_sources(CLI::App& app) {
  for (const Kind& kind : source_kinds())
    in_order(app, kind.flag(), kind.help,
             [this, &kind](const CLI::results_t& values) { set_source(kind, values); })
        ->expected(1, is_of_files(kind.form) ? kMany : 1)
        ->type_name(source_value_name(kind))
        ->group("Source (one of)");
}

void PipelineFlags::set_source(const Kind& kind, const std::vector<std::string>& values) {
  if (spec_.source)
    throw UsageError(&spec_.source->kind() == &kind
                         ? "is given twice; to read several files, give a pattern or several values"
                         : "there is already a source, " + spec_.source->kind().flag());
  Settings source(kind);
  if (kind.form == FlagForm::paths) {
    source.set("paths", List(values));
  } else if (values.size() != 1) {
    throw UsageError("takes one value, got " + std::to_string(values.size()) +
                     "; put a pattern in quotes, so that the shell does not expand it");
  } else if (kind.form == FlagForm::parts) {
    set_parts(source, values[0]);
  } else if (kind.form == FlagForm::range) {
    set_range(source, values[0]);
  } else {
    source.set(kind.parameters.front().name, values[0]);
  }
  spec_.source = std::move(source);
}

namespace {

/// A flag for a parameter of some sources.
struct SourceOption {
  const char* flag;
  const char* parameter;
  const char* value;  // null: the flag takes one
  const char* type;
  const char* help;
};
constexpr SourceOption kSourceOptions[] = {
    {"--label-regex", "label_regex", nullptr, "REGEX",
     "images, tar: regex whose group is the class; matched against the path if it has a /, else "
     "against the file's name"},
    {"--label-depth", "label_depth", nullptr, "N",
     "images: which folder names the class: 1 is the first below the root (default for a "
     "folder), 0 the parent folder (default for a pattern)"},
    {"--hidden", "hidden", "true", "",
     "images, tar: include hidden files, folders and members (whose names begin with a dot)"},
    {"--example", "example", nullptr, "KEY[:DTYPE[=DEFAULT]],...",
     "tfrecord: parse these features"},
    {"--sequence", "sequence", nullptr, "KEY[:DTYPE[[SHAPE]]],...",
     "tfrecord: parse these feature lists of tf.SequenceExamples; after the type, [] means steps "
     "of one value, [4] or [2x3] steps of that shape"},
    {"--compression", "compression", nullptr, "NAME",
     "tfrecord: automatic (default), none, gzip or zlib"},
    {"--no-verify", "verify", "false", "", "tfrecord: don't check the data's CRC32C"},
    {"--no-header", "header", "false", "", "csv: the first line is data"},
    {"--columns", "columns", nullptr, "NAME[:DTYPE[=DEFAULT]],...", "csv: keep these columns"},
    {"--na-values", "na_values", nullptr, "TEXT,...",
     "csv: strings that mean a missing value, such as NA (default: none)"},
    {"--delimiter", "delimiter", nullptr, "CHAR", "csv: field delimiter (default: a comma)"},
    {"--record-bytes", "record_bytes", nullptr, "BYTES", "records: length of a record"},
    {"--header-bytes", "header_bytes", nullptr, "BYTES",
     "records: bytes to skip at each file's start"},
    {"--footer-bytes", "footer_bytes", nullptr, "BYTES",
     "records: bytes to skip at each file's end"},
    {"--token-window", "window", nullptr, "N",
     "tokens: inputs in a window; one more token is its last target"},
    {"--stored", "stored", nullptr, "u16|u32",
     "tokens: dtype in files without a header (default: u16)"},
    {"--token-dtype", "dtype", nullptr, "DTYPE", "tokens: i32 (default), i64, u16 or u32"},
    {"--keep-remainder", "keep_remainder", "true", "",
     "tokens: the rest of a file becomes a shorter window"},
    {"--index-folder", "index_folder", nullptr, "DIR|beside|-",
     "where to keep offset indices: a folder, beside the data, or - for nowhere (default: a "
     "cache folder)"},
};

}  // namespace

void PipelineFlags::add_source_options(CLI::App& app) {
  for (const SourceOption& option : kSourceOptions)
    in_order(
        app, option.flag, option.help,
        [this, option](const CLI::results_t& values) {
          const std::string value = option.value != nullptr ? option.value : values.at(0);
          source_options_.push_back({option.flag, StageRole::other, option.parameter, value, 0});
        })
        ->expected(option.value != nullptr ? 0 : 1)
        ->type_name(option.type)
        ->group("Source options");
}

void PipelineFlags::add_stages(CLI::App& app) {
  const std::string group = "Stages (apply in the order given; more values as name=value)";
  for (const Kind& kind : stage_kinds()) {
    CLI::Option* option =
        in_order(app, kind.flag(), kind.help, [this, &kind](const CLI::results_t& values) {
          Settings stage(kind);
          const std::string text = values.empty() ? "" : values.back();
          if (!text.empty()) stage.set_positional(text);
          stage.require_all();
          spec_.stages.push_back(std::move(stage));
        });
    const bool required = !kind.parameters.empty() && kind.parameters.front().required;
    option->expected(required ? 1 : 0, kind.parameters.empty() ? 0 : 1);
    option->type_name(value_name(kind))->group(group);
  }
  struct Option {
    const char* flag;
    StageRole role;
    const char* parameter;
    const char* help;
  };
  static constexpr Option kOptions[] = {
      {"--drop-remainder", StageRole::batch, "drop_remainder",
       "with --batch: drop a short last batch"},
      {"--orient", StageRole::decode, "orient", "with --decode: apply the EXIF orientation"},
      {"--strict-images", StageRole::decode, "strict_images",
       "with --decode: reject images with decoder warnings, even if no pixel changes"},
      {"--on-device", StageRole::decode, "on_device",
       "with --decode: decode coefficient records and JPEGs on the --device"},
  };
  for (const Option& option : kOptions)
    in_order(app, option.flag, option.help,
             [this, option](const CLI::results_t&) {
               stage_options_.push_back(
                   {option.flag, option.role, option.parameter, "", spec_.stages.size()});
             })
        ->expected(0)
        ->type_name("")
        ->group(group);
}

void PipelineFlags::add_run(CLI::App& app, const std::string& default_seed) {
  for (const Parameter& parameter : run_kind().parameters) {
    const std::string flag = Kind{parameter.name, "", {}}.flag();
    std::string type = parameter.type == ValueType::bytes    ? "BYTES"
                       : parameter.type == ValueType::budget ? "N|P%"
                                                             : "N";
    if (parameter.type == ValueType::text) type = parameter.form;
    if (!parameter.choices.empty()) type = join(parameter.choices, "|");
    const bool seed = &parameter == run_kind().find("seed");
    const std::string default_text = seed ? " (" + default_seed + ")" : "";
    const bool alone = parameter.type == ValueType::boolean;
    in_order(app, flag, parameter.help + default_text,
             [this, alone, name = parameter.name](const CLI::results_t& values) {
               alone ? spec_.run.set(name, true) : spec_.run.set_text(name, values.at(0));
             })
        ->expected(alone ? 0 : 1)
        ->type_name(alone ? "" : type)
        ->group("Run");
  }
}

void PipelineFlags::apply_source_options() {
  for (const Late& late : source_options_) {
    at_flag(late.flag, [&] {
      if (!spec_.source) throw UsageError("needs a source");
      if (spec_.source->kind().find(late.parameter) == nullptr)
        throw UsageError("is not an option of " + spec_.source->kind().flag());
      spec_.source->set_text(late.parameter, late.value);
    });
  }
  if (!spec_.source) return;
  const Kind& kind = spec_.source->kind();
  for (const SourceOption& option : kSourceOptions) {
    const Parameter* const parameter =
        option.value == nullptr ? kind.find(option.parameter) : nullptr;
    if (parameter != nullptr && parameter->required && !spec_.source->has(option.parameter))
      throw UsageError("a source of " + kind.name + " needs " + option.flag);
  }
  at_flag(kind.flag(), [&] { spec_.source->require_all(); });
}

void PipelineFlags::apply_to_stage(StageRole role, const std::string& parameter,
                                   std::size_t position, const std::string& flag) {
  const auto matches = [&](const Settings& stage) { return stage.kind().role == role; };
  for (std::size_t i = position; i-- > 0;)
    if (matches(spec_.stages[i])) return spec_.stages[i].set(parameter, true);
  for (std::size_t i = position; i < spec_.stages.size(); ++i)
    if (matches(spec_.stages[i])) return spec_.stages[i].set(parameter, true);
  if (role == StageRole::decode) {
    // An image op implies decoding: say so, to hang the option on it.
    for (std::size_t i = 0; i < spec_.stages.size(); ++i) {
      if (!spec_.stages[i].kind().is_image()) continue;
      Settings decode(kind_of(role));
      decode.set(parameter, true);
      spec_.stages.insert(spec_.stages.begin() + static_cast<std::ptrdiff_t>(i), decode);
      return;
    }
  }
  throw UsageError("applies to no stage of this pipeline", flag);
}

PipelineSpec PipelineFlags::finish() {
  const auto is_hidden = [](const Late& late) { return late.parameter == "hidden"; };
  if (!bare_paths_.empty()) {
    if (spec_.source || !pipeline_file_.empty())
      throw UsageError("unexpected path " + in_quotes(bare_paths_.front()) +
                       ": there is already a source, " +
                       (spec_.source ? spec_.source->kind().flag() : "--pipeline"));
    use_remote(spec_.run);
    spec_.source = find_(bare_paths_, std::ranges::any_of(source_options_, is_hidden));
  }
  if (!pipeline_file_.empty()) {
    if (spec_.source || !spec_.stages.empty() || !source_options_.empty() ||
        !stage_options_.empty())
      throw UsageError("replaces the flags for sources and stages: give one or the other",
                       "--pipeline");
    PipelineSpec loaded = load_pipeline(pipeline_file_);
    for (const auto& [parameter, value] : spec_.run.given()) loaded.run.set(parameter->name, value);
    return loaded;
  }
  if (!spec_.source) {
    throw UsageError(std::string("there is no source: give ") +
                     (find_ != nullptr ? "a path, " : "") + "--pipeline or one of " +
                     source_flags());
  }
  apply_source_options();
  for (const Late& late : stage_options_)
    apply_to_stage(late.role, late.parameter, late.position, late.flag);
  return std::move(spec_);
}

}  // namespace penstock::tool
