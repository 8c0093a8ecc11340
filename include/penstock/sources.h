// The sources that come with Penstock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/file_system.h>
#include <penstock/limits.h>

namespace penstock {

/// What the sources that read files have in common.
struct FileOptions {
  FileSystemPtr files{};  ///< null: default_file_system()
  std::string
      index_folder;  ///< where offset indices are cached; empty: beside the data, "-": nowhere
  Limits limits{};
};

/// One file name, pattern, or several of them; patterns are sorted, the list is kept in order.
using Paths = std::vector<std::string>;

struct ImagesOptions : FileOptions {
  /// With one group: the label's text is that group's match on the file name (or path, if it has a
  /// '/'). Empty: the parent folder's name.
  std::string label_regex{};
};
/// Image files: {image: bytes, label: i64, key: bytes}. A folder: every .jpg, .jpeg and .png below
/// it, in any case; a pattern: every match. Labels count the sorted class names. Indexed.
Dataset images(const std::string& folder_or_pattern, ImagesOptions options = {});
/// Takes no list: {"a", "b"} would make one std::string of two unrelated pointers.
template <std::size_t N>
requires(N > 1) Dataset images(const char* const (&list)[N], ImagesOptions options = {})
= delete;
/// The class names that the labels of `images`, `tar` and `cifar10` count, in label order; empty
/// for other datasets.
std::vector<std::string> class_names(const Dataset& dataset);

struct TarOptions : FileOptions {
  std::string label_regex{};  ///< as for images, on the member's name
};
/// Tar shards as WebDataset groups them: one sample per key (the name up to the first dot of its
/// last part), one bytes component per extension plus `key`. If the members are images: {image,
/// label, key}, label from a `cls` member, else the parent folder. ustar, pax and GNU long names.
/// Indexed.
Dataset tar(const Paths& paths, TarOptions options = {});

enum class Compression { automatic, none, gzip, zlib };

struct TFRecordOptions : FileOptions {
  Compression compression = Compression::automatic;  ///< automatic: by content
  bool verify = true;                                ///< check the CRC32C of the data
};
/// TFRecord files: {record: bytes}. Plain files are indexed; compressed ones are streams.
Dataset tfrecord(const Paths& paths, TFRecordOptions options = {});

/// A feature of a tf.Example.
struct FeatureSpec {
  std::string key;
  DType dtype = DType::bytes;             ///< bytes, f32 or i64
  Shape shape{};                          ///< [] takes one value; [-1] any number
  std::optional<Tensor> default_value{};  ///< for a missing feature; none: an error
  std::string component{};                ///< its name in the element; empty: the key
};
/// Parses the tf.Example in component `component` into the features asked for, which replace it.
WorkOpPtr parse_example(std::vector<FeatureSpec> features, std::string component = "record",
                        Limits limits = {});

/// CIFAR-10's binary version: {image: u8 [32,32,3], label: i64}. Indexed.
Dataset cifar10(const Paths& paths, FileOptions options = {});
/// IDX files (MNIST), plain or gzip: {image: <dtype> [...]} and, with a second file, {label: i64}.
/// Indexed.
Dataset idx(const std::string& images_path, const std::string& labels_path = "",
            FileOptions options = {});
/// Takes no list, see `images`.
template <std::size_t N>
requires(N > 1) Dataset
    idx(const char* const (&list)[N], const std::string& labels_path = "", FileOptions options = {})
= delete;

struct CsvOptions : FileOptions {
  bool header = true;
  char delimiter = ',';
  /// Name, dtype (bytes, i64, f32, f64) and default of each column to keep; empty: all, as bytes.
  /// Without a header they name the fields in order (none given: c0, c1, …).
  struct Column {
    std::string name;
    DType dtype = DType::bytes;
    std::optional<std::string>
        default_value{};  ///< none: an empty field is an error (bytes: empty)
  };
  std::vector<Column> columns{};
};
/// Comma-separated values, RFC 4180 quoting: one scalar component per column. Indexed by line.
Dataset csv(const Paths& paths, CsvOptions options = {});
/// Lines without their end (\n or \r\n): {line: bytes}. Indexed.
Dataset text_lines(const Paths& paths, FileOptions options = {});

struct FixedRecordOptions : FileOptions {
  std::uint64_t header_bytes = 0;
  std::uint64_t footer_bytes = 0;
};
/// Records of `record_bytes` bytes: {record: u8 [record_bytes]}. Indexed.
Dataset fixed_records(const Paths& paths, std::uint64_t record_bytes,
                      FixedRecordOptions options = {});
/// The rows (outermost dimension) of .npy arrays: {value: <dtype> [...]}. Indexed.
Dataset npy(const Paths& paths, FileOptions options = {});

/// The rows (outermost dimension) of in-memory tensors. All must have as many. Indexed.
Dataset tensors(Element columns);
/// The element once.
Dataset from_element(Element element);
/// {value: i64}: start, start + step, … while below stop (above, for a negative step). Indexed.
Dataset range(std::int64_t stop);
Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);

/// Fills `out` and returns true, or returns false at the end. Called by one thread at a time.
using Generator = std::function<bool(Element& out)>;
/// A user's callback; `make` gives a fresh generator for each pass. A stream. What the generator
/// throws is the element's error.
Dataset generate(std::function<Generator()> make, Spec spec, std::string name = "generate");

/// The shape of a distribution: a constant, or drawn for each record from the record's own random
/// numbers.
struct Distribution {
  enum class Kind { constant, uniform, lognormal, pareto } kind = Kind::constant;
  double a = 0;       ///< constant: the value; uniform: low; lognormal: median; pareto: least
  double b = 0;       ///< uniform: high; lognormal: sigma; pareto: exponent
  double max = 1e18;  ///< larger draws are cut to this
};

/// What `synthetic` makes up. As text for --synthetic:
/// "count=10000,bytes=lognormal:110000:0.5,cost_us=50,…".
struct SyntheticOptions {
  std::uint64_t count = 10'000;
  Distribution bytes{Distribution::Kind::constant, 1024, 0};  ///< size of a record
  Distribution read_us{};  ///< latency of reading one, waited for off the compute threads
  Distribution cost_us{};  ///< compute burned for each record by the stage that follows
  double fault_share = 0;  ///< share of records that fail to read
  int image_height = 0,
      image_width = 0;  ///< positive: records are JPEGs of this size (bytes is then ignored)
  std::uint64_t seed = 0;
};
/// Throws Error{invalid_argument} naming the part that is wrong.
SyntheticOptions parse_synthetic(const std::string& text);
/// {data: bytes, index: i64} or, for images, {image: bytes, label: i64, key: bytes}. Indexed; the
/// same for the same options.
Dataset synthetic(SyntheticOptions options);

}  // namespace penstock
