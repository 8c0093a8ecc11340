// The sources that come with Penstock: each as a Source, and as a dataset of its records.
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
#include <penstock/source.h>

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
/// Image files: {image: bytes, label: i64, key: bytes}, sorted bytewise by path. A folder: every
/// .jpg, .jpeg and .png below it, in any case; a pattern: every match. The key is the path below
/// the folder (or below the part of the pattern that has no wildcard); labels count the sorted
/// class names. What the bytes are is the decoder's business. A file that differs from what was
/// found at the start fails with data_loss, a file above the limit with out_of_range. Indexed.
/// Throws Error{not_found} if there are no images, and Error{invalid_argument} naming the first
/// files that the label expression does not match.
SourcePtr make_images_source(const std::string& folder_or_pattern, const ImagesOptions& options);
inline Dataset images(const std::string& folder_or_pattern, const ImagesOptions& options = {}) {
  return Dataset(make_images_source(folder_or_pattern, options));
}
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
/// last part). ustar, pax and GNU long names. What the first sound sample has decides the
/// components:
///   - one image (jpg, jpeg or png), and perhaps a `cls`: {image: bytes, label: i64, key: bytes}
///   - anything else: a bytes component per extension, by name; with a `cls` or a label expression
///     `label: i64` (which replaces the component `cls`); then `key`.
/// The label is the expression's match, else the number in `cls`, else, for images, the parent
/// folder. A sample that lacks a component is an error naming it; members that no component wants
/// are left out. Indexed. Throws Error{not_found} that lists missing shards,
/// Error{invalid_argument} for a label expression that matches no sample.
SourcePtr make_tar_source(const Paths& paths, const TarOptions& options);
inline Dataset tar(const Paths& paths, const TarOptions& options = {}) {
  return Dataset(make_tar_source(paths, options));
}

enum class Compression { automatic, none, gzip, zlib };

struct TFRecordOptions : FileOptions {
  Compression compression = Compression::automatic;  ///< automatic: by content
  bool verify = true;                                ///< check the CRC32C of the data
};
/// TFRecord files: {record: bytes}. Plain files are indexed; if any file is compressed the source
/// is a stream. Damaged data is the error of that record, the next goes on. Behind a damaged
/// length, a cut or what does not inflate nothing can be found: one error, the rest of the shard is
/// lost, the next shard goes on. Throws Error{not_found} that lists what is missing.
SourcePtr make_tfrecord_source(const Paths& paths, const TFRecordOptions& options);
inline Dataset tfrecord(const Paths& paths, const TFRecordOptions& options = {}) {
  return Dataset(make_tfrecord_source(paths, options));
}

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

/// CIFAR-10's binary version: {image: u8 [32,32,3], label: i64} from records of 3,073 bytes: the
/// label, then the red, the green and the blue plane. A label above 9 is data_loss. Indexed. Source
/// of the format: https://www.cs.toronto.edu/~kriz/cifar.html. Throws Error{not_found} that lists
/// what is missing.
SourcePtr make_cifar10_source(const Paths& paths, const FileOptions& options);
inline Dataset cifar10(const Paths& paths, const FileOptions& options = {}) {
  return Dataset(make_cifar10_source(paths, options));
}

/// IDX files (MNIST), plain or gzip: {image: <dtype> [...]} and, with a second file, {label: i64}.
/// Compressed images and labels are kept in memory; plain images are read when needed. A file that
/// holds fewer rows than it promises delivers them and then fails once with data_loss. Indexed.
/// Throws Error{not_found}, Error{data_loss} for what is not IDX, and Error{invalid_argument} if
/// images and labels differ in number or the labels are not whole numbers.
SourcePtr make_idx_source(const std::string& images_path, const std::string& labels_path,
                          const FileOptions& options);
inline Dataset idx(const std::string& images_path, const std::string& labels_path = "",
                   const FileOptions& options = {}) {
  return Dataset(make_idx_source(images_path, labels_path, options));
}
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
/// Comma-separated values, RFC 4180 quoting: one scalar component per column. Every record must
/// have as many fields as the header, or as the first record; a blank line is one empty field. A
/// byte order mark is passed over. Indexed by line. Throws Error{not_found} that lists missing
/// files, and Error{invalid_argument} for files whose headers differ, columns that do not exist or
/// are named twice, dtypes that a field can't have, and defaults that are no number.
SourcePtr make_csv_source(const Paths& paths, const CsvOptions& options);
inline Dataset csv(const Paths& paths, const CsvOptions& options = {}) {
  return Dataset(make_csv_source(paths, options));
}

/// {line: bytes}. A line ends with \n or \r\n, which are no part of it, or with the file; any other
/// \r is text. Indexed. Throws Error{not_found} that lists what is missing.
SourcePtr make_text_lines_source(const Paths& paths, const FileOptions& options);
inline Dataset text_lines(const Paths& paths, const FileOptions& options = {}) {
  return Dataset(make_text_lines_source(paths, options));
}

struct FixedRecordOptions : FileOptions {
  std::uint64_t header_bytes = 0;
  std::uint64_t footer_bytes = 0;
};
/// Records of `record_bytes` bytes: {record: u8 [record_bytes]}, what lies between each file's
/// header and footer. Indexed. Throws Error{not_found} that lists what is missing,
/// Error{invalid_argument} for records of no bytes, and Error{data_loss} for a file that is shorter
/// than its header and footer.
SourcePtr make_fixed_records_source(const Paths& paths, std::uint64_t record_bytes,
                                    const FixedRecordOptions& options);
inline Dataset fixed_records(const Paths& paths, std::uint64_t record_bytes,
                             const FixedRecordOptions& options = {}) {
  return Dataset(make_fixed_records_source(paths, record_bytes, options));
}

/// The rows (outermost dimension) of .npy arrays, one array after the other: {value: <dtype>
/// [...]}. Indexed. Throws Error{not_found} that lists what is missing, Error{data_loss} with the
/// offset of what is wrong in a header, and Error{invalid_argument} for dtypes that no tensor
/// holds, and an array without rows, in Fortran order, or with other rows than the first array's.
SourcePtr make_npy_source(const Paths& paths, const FileOptions& options);
inline Dataset npy(const Paths& paths, const FileOptions& options = {}) {
  return Dataset(make_npy_source(paths, options));
}

/// The rows (outermost dimension) of in-memory tensors; each record is views of them. Indexed.
/// Throws Error{invalid_argument} naming the component that is a scalar or has another number of
/// rows.
SourcePtr make_tensors_source(Element columns);
inline Dataset tensors(Element columns) {
  return Dataset(make_tensors_source(std::move(columns)));
}

/// The element once. Throws Error{invalid_argument} if it has no components.
SourcePtr make_element_source(Element element);
inline Dataset from_element(Element element) {
  return Dataset(make_element_source(std::move(element)));
}

/// {value: i64}: start, start + step, … while below stop (above, for a negative step). Indexed.
/// Throws Error{invalid_argument} for a step of 0.
SourcePtr make_range_source(std::int64_t start, std::int64_t stop, std::int64_t step);
inline Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return Dataset(make_range_source(start, stop, step));
}
inline Dataset range(std::int64_t stop) {
  return range(0, stop);
}

/// Fills `out` and returns true, or returns false at the end. Called by one thread at a time.
using Generator = std::function<bool(Element& out)>;
/// A user's callback; `make` gives a fresh generator for each pass. A stream. What the generator
/// throws, or an element that does not fit `spec`, is that record's error; it is called again for
/// the next. Throws Error{invalid_argument} for an empty callable.
SourcePtr make_generate_source(std::function<Generator()> make, Spec spec, std::string name);
inline Dataset generate(std::function<Generator()> make, Spec spec, std::string name = "generate") {
  return Dataset(make_generate_source(std::move(make), std::move(spec), std::move(name)));
}

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
