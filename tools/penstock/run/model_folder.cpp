#include "tools/penstock/run/model_folder.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include <penstock/durable_file.h>
#include <penstock/error.h>
#include <penstock/internal/find_files.h>
#include <penstock/internal/posix.h>
#include <penstock/towers/columns/column.h>
#include <penstock/towers/export.h>
#include <penstock/towers/model.h>
#include <penstock/version.h>

#include "pipelines/text.h"
#include "pipelines/toml.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "penstock model 1";

std::string about_in(const std::string& folder) {
  return folder + "/model.json";
}
std::string pipeline_in(const std::string& folder) {
  return folder + "/pipeline.toml";
}
// Uses numbers, because names of columns are data and may not be valid paths.
std::string vocabulary_name(std::size_t number) {
  return "vocabulary-" + std::to_string(number) + ".txt";
}

bool is_vocabulary(const std::string& name) {
  constexpr std::string_view kBegin = "vocabulary-";
  constexpr std::string_view kEnd = ".txt";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return false;
  const std::size_t digits = name.find_first_not_of("0123456789", kBegin.size());
  return digits > kBegin.size() && digits == name.size() - kEnd.size();
}

/// Writes lines as `read_vocabulary` reads them; that removes one carriage return from each line.
std::string lines_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + (word.ends_with('\r') ? "\r\n" : "\n");
  return text;
}

/// Writes the columns, and removes those of an earlier model. Returns the columns whose words are
/// in files, in the order of the files' numbers.
Json write_columns(const std::string& folder, const std::optional<StoredColumns>& columns) {
  std::error_code error;
  std::vector<fs::path> left{columns_in(folder)};
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_vocabulary(at->path().filename().string())) left.push_back(at->path());
  for (const fs::path& path : left) fs::remove(path, error);
  Json names = Json::array();
  if (!columns) return names;
  for (const auto& [name, words] : columns->vocabularies) {
    write_durably(folder + "/" + vocabulary_name(names.size()), lines_of(words));
    names.push_back(name);
  }
  write_durably(columns_in(folder), columns->text);
  return names;
}

StoredColumns read_stored_columns(const std::string& folder,
                                  const std::vector<std::string>& vocabularies) {
  StoredColumns columns{.text = read_toml_text(columns_in(folder), "the model's columns")};
  for (std::size_t i = 0; i < vocabularies.size(); ++i)
    columns.vocabularies[vocabularies[i]] =
        towers::read_vocabulary(folder + "/" + vocabulary_name(i));
  return columns;
}

}  // namespace

std::string columns_in(const std::string& folder) {
  return folder + "/columns.toml";
}

std::string variables_in(const std::string& folder) {
  return folder + "/variables.safetensors";
}

void check_model_folder(const std::string& folder) {
  std::error_code error;
  if (folder.empty() || !fs::exists(folder, error)) return;
  if (!fs::is_directory(folder, error)) throw UsageError(folder + " is not a folder");
  static const std::set<std::string> kOurs{"model.json", "variables.safetensors", "pipeline.toml",
                                           "columns.toml"};
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!kOurs.contains(name) && !is_vocabulary(name))
      throw UsageError("there are other files in " + folder + ", such as " + name);
  }
}

void write_model_folder(const std::string& folder, const ModelFolder& about,
                        const towers::VariableStore& variables) {
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw error_from_errno(error.value(), "make the folder", folder);
  fs::remove(about_in(folder), error);  // without it, an incomplete model does not count as one
  towers::export_variables(variables, variables_in(folder), about.classes,
                           {{"step", std::to_string(about.step)}});
  fs::remove(pipeline_in(folder), error);
  if (about.pipeline) write_durably(pipeline_in(folder), to_toml(*about.pipeline));
  const Json vocabularies = write_columns(folder, about.columns);
  const towers::ModelKind& kind = towers::model_kind(about.model);
  Json json{
      {"format", kFormat},
      {"model", about.model},
      {"step", about.step},
      {"classes", about.classes},
      {"outputs", kind.outputs.empty() ? Json("probabilities of classes") : Json(kind.outputs)},
      {"components", Json::object()},
      {"pipeline", about.pipeline ? Json("pipeline.toml") : Json(nullptr)},
      {"columns", about.columns ? Json("columns.toml") : Json(nullptr)},
      {"vocabularies", vocabularies},
      {"penstock", version()}};
  for (const auto& [own, theirs] : about.components) json["components"][own] = theirs;
  write_durably(about_in(folder), json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

ModelFolder read_model_folder(const std::string& folder) {
  std::ifstream in(about_in(folder), std::ios::binary);
  if (!in) throw error_from_errno(errno, "read the model", about_in(folder));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ModelFolder about;
  bool piped = false;
  bool has_columns = false;
  std::vector<std::string> vocabularies;
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat)
      throw UsageError(about_in(folder) + " is of another version of Penstock");
    about.model = json.at("model").get<std::string>();
    about.step = json.at("step").get<std::uint64_t>();
    about.classes = json.at("classes").get<std::vector<std::string>>();
    for (const auto& [own, theirs] : json.at("components").items())
      about.components.emplace_back(own, theirs.get<std::string>());
    piped = !json.at("pipeline").is_null();
    // A folder that was written before models over columns could be exported has neither.
    has_columns = json.contains("columns") && !json["columns"].is_null();
    if (has_columns) vocabularies = json.at("vocabularies").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& problem) {
    throw UsageError(about_in(folder) + " is damaged: " + problem.what());
  }
  if (piped) about.pipeline = load_pipeline(pipeline_in(folder));
  if (has_columns) about.columns = read_stored_columns(folder, vocabularies);
  return about;
}

PipelineSpec element_ops(const PipelineSpec& pipeline) {
  PipelineSpec kept;
  kept.source = pipeline.source;
  for (const Settings& stage : pipeline.stages)
    if (stage.kind().is_image() || stage.kind().role == StageRole::decode ||
        stage.kind().role == StageRole::element)
      kept.stages.push_back(stage);
  return kept;
}

PipelineSpec with_data(const PipelineSpec& pipeline, const std::string& path) {
  PipelineSpec other = pipeline;
  const Kind& kind = pipeline.source->kind();
  const bool is_list = !kind.parameters.empty() && kind.parameters.front().type == ValueType::list;
  if (!is_list && kind.form != FlagForm::pattern && kind.form != FlagForm::parts)
    throw UsageError("the model's pipeline reads " + kind.name + ", which has no path");
  if (is_list) {
    other.source->set(kind.parameters.front().name, split_paths(*default_file_system(), path));
    return other;
  }
  const List parts =
      kind.form == FlagForm::parts ? split_paths(*default_file_system(), path) : List{path};
  if (parts.size() > kind.parameters.size())
    throw UsageError("the model's pipeline reads " + kind.name + ", which is not " +
                     std::to_string(parts.size()) + " files");
  for (std::size_t i = 0; i < parts.size(); ++i)
    other.source->set(kind.parameters[i].name, parts[i]);
  return other;
}

}  // namespace penstock::tool
