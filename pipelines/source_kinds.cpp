// All sources of the command line and of TOML: their parameters, and the functions that open them.
#include <charconv>
#include <cstdint>
#include <map>

#include <penstock/image_records.h>
#include <penstock/sources.h>

#include "pipelines/kinds.h"
#include "pipelines/numbers.h"
#include "pipelines/parameters.h"
#include "pipelines/text.h"
#include "pipelines/typed_name.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

Parameter paths() {
  return {"paths", ValueType::list, "files or patterns", true};
}

Parameter label_regex() {
  return {"label_regex", ValueType::text,
          "regex with one group, which is the class; matched against the path if it has a /, else "
          "against the file's name"};
}

Parameter label_depth() {
  return {"label_depth",
          ValueType::integer,
          "which folder names the class: 1 is the first below the root (default for a folder), 0 "
          "the parent folder (default for a pattern)",
          false,
          0,
          1000};
}

Parameter hidden() {
  return {"hidden", ValueType::boolean,
          "include hidden files, folders and members (default false)"};
}

Parameter index_folder() {
  return {"index_folder", ValueType::text,
          "where to keep offset indices: a folder, beside the data (beside), or - for nowhere"};
}

FileOptions file_options(const Settings& source, const FileSystemPtr& files) {
  FileOptions options;
  options.files = files;
  if (source.kind().find("index_folder") != nullptr)
    options.index_folder = source.get("index_folder", std::string());
  return options;
}

Dataset open_images(const Settings& source, const FileSystemPtr& files) {
  ImagesOptions options;
  static_cast<FileOptions&>(options) = file_options(source, files);
  options.label_regex = source.get("label_regex", std::string());
  if (source.has("label_depth")) options.label_depth = source.get("label_depth", std::int64_t{0});
  options.hidden = source.get("hidden", false);
  return images(source.get("path", std::string()), options);
}

Dataset open_tar(const Settings& source, const FileSystemPtr& files) {
  TarOptions options;
  static_cast<FileOptions&>(options) = file_options(source, files);
  options.label_regex = source.get("label_regex", std::string());
  options.hidden = source.get("hidden", false);
  return tar(source.get("paths", List()), options);
}

Dataset open_tfrecord(const Settings& source, const FileSystemPtr& files) {
  static const std::map<std::string, Compression> kCompressions{
      {"automatic", Compression::automatic},
      {"none", Compression::none},
      {"gzip", Compression::gzip},
      {"zlib", Compression::zlib}};
  TFRecordOptions options;
  static_cast<FileOptions&>(options) = file_options(source, files);
  options.compression = kCompressions.at(source.get("compression", std::string("automatic")));
  options.verify = source.get("verify", true);
  const Dataset records = tfrecord(source.get("paths", List()), options);
  if (!source.has("example") && !source.has("sequence")) return records;
  return records.map_op(parse_sequence_example(parse_features(source.get("example", List())),
                                               parse_sequences(source.get("sequence", List()))));
}

Dataset open_cifar10(const Settings& source, const FileSystemPtr& files) {
  return cifar10(source.get("paths", List()), file_options(source, files));
}

Dataset open_idx(const Settings& source, const FileSystemPtr& files) {
  return idx(source.get("images", std::string()), source.get("labels", std::string()),
             file_options(source, files));
}

Dataset open_csv(const Settings& source, const FileSystemPtr& files) {
  CsvOptions options;
  static_cast<FileOptions&>(options) = file_options(source, files);
  options.header = source.get("header", true);
  const std::string delimiter = source.get("delimiter", std::string(","));
  if (delimiter.size() != 1) throw UsageError("delimiter must be one character");
  options.delimiter = delimiter[0];
  for (const std::string& text : source.get("columns", List())) {
    TypedName one = parse_typed_name(text);
    options.columns.push_back({.name = std::move(one.name),
                               .dtype = one.dtype.value_or(DType::bytes),
                               .default_value = std::move(one.default_value)});
  }
  options.na_values = source.get("na_values", List());
  return csv(source.get("paths", List()), options);
}

Dataset open_lines(const Settings& source, const FileSystemPtr& files) {
  return text_lines(source.get("paths", List()), file_options(source, files));
}

Dataset open_records(const Settings& source, const FileSystemPtr& files) {
  if (!source.has("record_bytes")) {
    for (const char* name : {"header_bytes", "footer_bytes"})
      if (source.has(name)) throw UsageError("needs record_bytes", name);
    return image_records(source.get("paths", List()), file_options(source, files));
  }
  FixedRecordOptions options;
  static_cast<FileOptions&>(options) = file_options(source, files);
  options.header_bytes = static_cast<std::uint64_t>(source.get("header_bytes", std::int64_t{0}));
  options.footer_bytes = static_cast<std::uint64_t>(source.get("footer_bytes", std::int64_t{0}));
  return fixed_records(source.get("paths", List()),
                       static_cast<std::uint64_t>(source.get("record_bytes", std::int64_t{1})),
                       options);
}

Dataset open_npy(const Settings& source, const FileSystemPtr& files) {
  return npy(source.get("paths", List()), file_options(source, files));
}

Dataset open_tokens(const Settings& source, const FileSystemPtr& files) {
  TokenShardsOptions options;
  static_cast<FileOptions&>(options) = file_options(source, files);
  options.stored = dtype_from_name(source.get("stored", std::string("u16")));
  options.dtype = dtype_from_name(source.get("dtype", std::string("i32")));
  options.keep_remainder = source.get("keep_remainder", false);
  return token_shards(source.get("paths", List()), source.get("window", std::int64_t{1}), options);
}

Dataset open_range(const Settings& source, const FileSystemPtr&) {
  return range(source.get("start", std::int64_t{0}), source.get("stop", std::int64_t{0}),
               source.get("step", std::int64_t{1}));
}

Dataset open_synthetic(const Settings& source, const FileSystemPtr&) {
  return synthetic(parse_synthetic(source.get("spec", std::string())));
}

std::string feature_component(const std::string& key, DType dtype, bool& image, bool& label) {
  const std::size_t slash = key.rfind('/');
  const std::string last = slash == key.npos ? key : key.substr(slash + 1);
  if (!image && dtype == DType::bytes && (last == "encoded" || last == "image" || last == "jpg"))
    return image = true, "image";
  if (!label && dtype == DType::i64 && last == "label") return label = true, "label";
  return key;
}

/// Returns the default of a feature with one value.
Tensor default_of(const FeatureSpec& feature, const std::string& text) {
  const auto number = [&](auto value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw UsageError("the default of feature " + in_quotes(feature.key) + ": " + in_quotes(text) +
                           " is not a valid " + std::string(penstock::name_of(feature.dtype)),
                       "example");
    return Tensor::scalar(value);
  };
  if (feature.dtype == DType::i64) return number(std::int64_t{0});
  if (feature.dtype == DType::f32) return number(0.0F);
  return Tensor::copy_bytes(text);  // no feature has another dtype, as parse_example says
}

/// True if the text ends in a colon and the name of a dtype.
bool ends_in_dtype(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return false;
  for (int i = 0; i < kDTypeCount; ++i)
    if (text.substr(colon + 1) == penstock::name_of(static_cast<DType>(i))) return true;
  return false;
}

/// Parses "", "1024" or "2x3".
Shape step_shape(const std::string& text) {
  std::vector<std::int64_t> dims;
  if (!text.empty())
    for (const std::string& dim : split(text, 'x')) {
      dims.push_back(parse_integer(dim));
      if (dims.back() < 1 || dims.size() >= static_cast<std::size_t>(kMaxRank))
        throw UsageError("expected a step's shape such as [4] or [2x3], got [" + text + "]",
                         "sequence");
    }
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

const std::vector<Kind>& source_kinds() {
  static const std::vector<Kind> kinds{
      {"images",
       "image files: a folder (all .jpg, .jpeg, .png below it) or a pattern",
       {{"path", ValueType::text, "folder or pattern", true},
        label_regex(),
        label_depth(),
        hidden()},
       open_images,
       {.form = FlagForm::pattern, .formats = {Format::folder, Format::jpeg, Format::png}}},
      {"tar",
       "tar shards of samples, as WebDataset groups them",
       {paths(), label_regex(), hidden(), index_folder()},
       open_tar,
       {.formats = {Format::tar}}},
      {"tfrecord",
       "TFRecord files; records are bytes unless example is given",
       {paths(),
        {"example", ValueType::list,
         "features of the tf.Example inside, each KEY[:DTYPE[=DEFAULT]]"},
        {"sequence", ValueType::list,
         "feature lists of the tf.SequenceExample inside, each KEY[:DTYPE[[SHAPE]]], as x:f32[4]"},
        text("compression", "compression of the files", {"automatic", "none", "gzip", "zlib"}),
        flag("verify", "check the records' CRC32C (default true)"),
        index_folder()},
       open_tfrecord,
       {.formats = {Format::tfrecord}}},
      {"cifar10",
       "CIFAR-10's binary version",
       {paths()},
       open_cifar10,
       {.formats = {Format::cifar10}}},
      {"idx",
       "IDX files (MNIST), plain or gzip",
       {{"images", ValueType::text, "the file of images", true},
        {"labels", ValueType::text, "the file of labels"}},
       open_idx,
       {.form = FlagForm::parts, .formats = {Format::idx}}},
      {"csv",
       "comma-separated values",
       {paths(),
        flag("header", "the first line names the columns (default true)"),
        {"columns", ValueType::list,
         "columns to keep, each NAME[:DTYPE[=DEFAULT]]; default all, as bytes"},
        {"na_values", ValueType::list, "strings that mean a missing value, such as NA"},
        text("delimiter", "one character (default ,)", {}),
        index_folder()},
       open_csv,
       {.formats = {Format::csv, Format::lines}}},
      {"lines",
       "lines of text files",
       {paths(), index_folder()},
       open_lines,
       {.formats = {Format::lines, Format::csv}}},
      {"records",
       "images written by penstock pack; with --record-bytes, any records of one length",
       {paths(),
        {"record_bytes", ValueType::bytes, "length of a record", false, 1, 1e15},
        {"header_bytes", ValueType::bytes, "bytes to skip at each file's start", false, 0, 1e15},
        {"footer_bytes", ValueType::bytes, "bytes to skip at each file's end", false, 0, 1e15}},
       open_records,
       {.packed_images = true, .formats = {Format::records}}},
      {"npy", "rows of .npy arrays", {paths()}, open_npy, {.formats = {Format::npy}}},
      {"tokens",
       "windows of tokens, from files of llm.c or nanoGPT",
       {paths(), count("window", "tokens of a window, which has one more as its last target"),
        text("stored", "of tokens in files without a header (default u16)", {"u16", "u32"}),
        text("dtype", "of tokens in elements (default i32)", {"i32", "i64", "u16", "u32"}),
        flag("keep_remainder", "the rest of a file is a shorter window (default false)")},
       open_tokens,
       {.formats = {Format::tokens}}},
      {"range",
       "the integers start, start + step, … below stop",
       {{"stop", ValueType::integer, "the end, which is not included", true},
        {"start", ValueType::integer, "default 0"},
        {"step", ValueType::integer, "default 1"}},
       open_range,
       {.form = FlagForm::range}},
      {"synthetic",
       "synthetic records: \"count=10000,bytes=lognormal:110000:0.5,cost_us=50\"",
       {{"spec", ValueType::text, "what to make", true}},
       open_synthetic,
       {.form = FlagForm::text}},
  };
  return kinds;
}

std::vector<SequenceSpec> parse_sequences(const std::vector<std::string>& texts) {
  std::vector<SequenceSpec> sequences;
  for (const std::string& text : texts) {
    SequenceSpec sequence;
    std::string rest = text;
    const std::size_t bracket = text.rfind('[');
    if (text.ends_with(']') && bracket != text.npos) {
      // A missing list is no error, so a key with a shape in it would only give empty sequences.
      if (!ends_in_dtype(text.substr(0, bracket)))
        throw UsageError("a shape follows a dtype, as in key:f32[4], not " + in_quotes(text) +
                             "; for a key that ends in a bracket, give the dtype",
                         "sequence");
      sequence.step = step_shape(text.substr(bracket + 1, text.size() - bracket - 2));
      rest.resize(bracket);
    }
    TypedName one = parse_typed_name(rest);
    sequence.key = std::move(one.name);
    if (sequence.key.empty())
      throw UsageError("a sequence needs a key: " + in_quotes(text), "sequence");
    if (one.default_value)
      throw UsageError("a sequence can't have a default: " + in_quotes(text), "sequence");
    sequence.dtype =
        one.dtype.value_or(sequence.key.ends_with("label") ? DType::i64 : DType::bytes);
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

std::vector<FeatureSpec> parse_features(const std::vector<std::string>& texts) {
  std::vector<FeatureSpec> features;
  bool image = false;
  bool label = false;
  for (const std::string& text : texts) {
    FeatureSpec feature;
    TypedName one = parse_typed_name(text);
    feature.key = std::move(one.name);
    if (feature.key.empty())
      throw UsageError("a feature needs a key: " + in_quotes(text), "example");
    const bool labelled = feature.key.ends_with("label");
    feature.dtype = one.dtype.value_or(labelled ? DType::i64 : DType::bytes);
    if (one.default_value) feature.default_value = default_of(feature, *one.default_value);
    feature.component = feature_component(feature.key, feature.dtype, image, label);
    features.push_back(std::move(feature));
  }
  return features;
}

}  // namespace penstock::tool
