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

/// The options that all sources of files share.
///
/// While a source is made, reads that fail temporarily are repeated up to four times within 150 ms.
/// During a run RunOptions::retries decides. If a file changes while it is used, its records are
/// errors, never a mixture.
struct FileOptions {
  /// The file system that reads the files; null: default_file_system().
  FileSystemPtr files{};
  /// Where the offsets of records are kept for the next run: a folder, "beside" the data, or "-"
  /// for nowhere. Empty: $PENSTOCK_INDEX_DIR, which may be any of these, else
  /// $XDG_CACHE_HOME/penstock, else ~/.cache/penstock, made for its owner alone. If it is empty, an
  /// index next to the data is read, too.
  ///
  /// An index is made again when the contents of its file differ. If it can't be written, a warning
  /// says so once. Files below 4 MiB are scanned each time. Penstock never clears the folder: any
  /// file in it may be removed at any time.
  std::string index_folder;
  /// Bounds for the sizes that files may ask for.
  Limits limits{};
};

/// File names and patterns: several files are one source. A pattern may have *, ? and [...] in any
/// part of the path, and parts ** for any number of folders. Its matches are sorted bytewise; the
/// list keeps its order. Braces are expanded as in a shell, {000..127} and {train,val}, unless a
/// file has that very name. Missing files, and patterns without a match, are one
/// Error{not_found}. A path on a server begins with http://, https://, s3:// or gs://
/// (docs/remote-data.md). Any other scheme is Error{invalid_argument}.
///
/// A folder that may not be read is skipped with a warning; one that can't be listed for another
/// reason is an error. Hidden files, whose name or that of a folder between begins with a dot, are
/// skipped and counted in the log; a pattern matches them if it has the dot. Links to folders are
/// followed. A folder that links reach in more than kMostWays ways is refused, and so is a file
/// without a size, as those of /proc.
using Paths = std::vector<std::string>;

/// The options of `images`.
struct ImagesOptions : FileOptions {
  /// A regular expression with one group: the group's match on the file name is the label's text.
  /// If the expression has a '/', it is matched with the path. Empty: the name of a folder. The
  /// syntax is RE2's, without look-around and back-references, in at most 1,024 bytes.
  std::string label_regex{};
  /// The folder whose name is the label's text: 1 is the first below the root, 0 the parent folder.
  /// An image with fewer folders has its parent folder's name. By default it is the first of a
  /// folder, and the parent folder of a pattern. A warning says so where that makes a difference.
  std::optional<std::int64_t> label_depth{};
  bool hidden = false;  ///< takes hidden files and folders, too
};
/// Returns a source of image files: {image: bytes, label: i64, key: bytes}, sorted bytewise by
/// path. Of a folder it takes every .jpg, .jpeg and .png below it, in any case; of a pattern, every
/// match. Files are skipped if their name, or that of a folder below the root, begins with a dot; a
/// pattern matches them if it has the dot. Skipped files are counted in the log. The key is the
/// path below the folder, or below the part of the pattern that has no wildcard. Labels count the
/// sorted class names. The source does not look into the bytes; the decoder does. Indexed. The log
/// counts the files of a folder that are left out, by extension, and warns of likely images such as
/// .webp. Links to nothing are refused, and named.
///
/// A file that changed after the source was made fails with changed, a file above the limit with
/// out_of_range. Throws Error{not_found} if there are no images. Throws Error{invalid_argument}
/// naming the first files that the label expression does not match.
SourcePtr make_images_source(const std::string& folder_or_pattern, const ImagesOptions& options);
/// Returns the dataset of `make_images_source`.
inline Dataset images(const std::string& folder_or_pattern, const ImagesOptions& options = {}) {
  return Dataset(make_images_source(folder_or_pattern, options));
}
/// Refuses a list: {"a", "b"} would make one std::string of two unrelated pointers.
template <std::size_t N>
requires(N > 1) Dataset images(const char* const (&list)[N], ImagesOptions options = {})
= delete;
/// Returns the class names that the labels of `images`, `tar`, `cifar10` and `image_records` count,
/// in label order. Returns an empty list for other datasets.
std::vector<std::string> class_names(const Dataset& dataset);
/// Returns `Source::label_extension` of the dataset's source.
std::string label_extension(const Dataset& dataset);

/// The options of `tar`.
struct TarOptions : FileOptions {
  std::string label_regex{};  ///< as for images, on the member's name
  bool hidden = false;        ///< takes hidden members, too
};
/// Returns a source of tar shards, grouped as WebDataset groups them. Members with the same key are
/// one sample; the key is the name up to the first dot of its last part. Reads ustar, pax and GNU
/// long names. The extensions that at least half of the samples have decide the components:
///   - One image (jpg, jpeg or png), with or without a `cls`: {image: bytes, label: i64, key:
///     bytes}.
///   - Anything else: a bytes component for each extension, by name. With a `cls` or a label
///     expression, `label: i64` replaces the component `cls`. Then `key`.
/// `jpg`, `jpeg` and `png` count as one extension. A warning names extensions that too few samples
/// have.
///
/// The label is the match of the label expression, else the number in `cls`, else, for images, the
/// parent folder. A sample that lacks a component is an error that names the component. Samples
/// without any component, members that belong to none, and hidden members, whose last part begins
/// with a dot, are skipped and counted in the log. Members of a key that do not follow each other,
/// an extension twice, a link, and more than 1,000 members are errors of their sample. A damaged
/// header, and a shard that is cut within a member, are one error, and the next shard continues.
/// The log warns, once for all shards, of headers of types V, D, M, N and unknown ones, which are
/// skipped, of shards without an end-of-archive marker, and of archives behind the end of another.
/// Indexed. Throws Error{not_found} that lists missing shards. Throws Error{invalid_argument} for a
/// label expression that matches no sample, and for a shard with members and no sample.
SourcePtr make_tar_source(const Paths& paths, const TarOptions& options);
/// Returns the dataset of `make_tar_source`.
inline Dataset tar(const Paths& paths, const TarOptions& options = {}) {
  return Dataset(make_tar_source(paths, options));
}

/// How TFRecord files are compressed.
enum class Compression { automatic, none, gzip, zlib };

/// The options of `tfrecord`.
struct TFRecordOptions : FileOptions {
  Compression compression = Compression::automatic;  ///< automatic: by content
  bool verify = true;                                ///< checks the CRC32C of the data
};
/// Returns a source of TFRecord files: {record: bytes}. Plain files are indexed. If any file is
/// compressed, the source is a stream. Damaged data is the error of its record, and the next record
/// continues; TensorFlow's reader gives up the rest of the file. A damaged length, a cut (also one
/// within the 12 bytes of a header, which TensorFlow takes for the end) or data that can't be
/// inflated costs the rest of the shard: this is one error, and the next shard continues. Bytes
/// behind the end of gzip or zlib are one error behind the records. Throws Error{not_found} that
/// lists the missing files.
SourcePtr make_tfrecord_source(const Paths& paths, const TFRecordOptions& options);
/// Returns the dataset of `make_tfrecord_source`.
inline Dataset tfrecord(const Paths& paths, const TFRecordOptions& options = {}) {
  return Dataset(make_tfrecord_source(paths, options));
}

/// A feature of a tf.Example that `parse_example` reads.
struct FeatureSpec {
  std::string key;             ///< the name of the feature
  DType dtype = DType::bytes;  ///< bytes, f32 or i64
  Shape shape{};               ///< [] takes one value; one dimension may be -1, for any number
  std::optional<Tensor> default_value{};  ///< for a missing feature; none: an error
  std::string component{};                ///< its name in the element; empty: the key
};
/// Returns an op that parses the tf.Example in component `component`. The requested features
/// replace the component. Values are views of the record where that is possible. A feature that is
/// missing or has no kind takes its default, else is the element's error. An empty list is an error
/// even with a default. Of two features of one name the last counts, as in TensorFlow.
WorkOpPtr parse_example(std::vector<FeatureSpec> features, std::string component = "record",
                        Limits limits = {});

/// A feature list of a tf.SequenceExample: a sequence of steps, each of which is a feature.
struct SequenceSpec {
  std::string key;              ///< the name of the feature list
  DType dtype = DType::bytes;   ///< bytes, f32 or i64
  std::optional<Shape> step{};  ///< shape of each step; none: steps have any number of values
  /// True: a missing list has no steps. Without `step` it never has any.
  bool allow_missing = false;
  std::string component{};  ///< its name in the element; empty: the key
};
/// Returns an op that parses the tf.SequenceExample in component `component`, as TensorFlow's
/// parse_single_sequence_example does. The features of the context, and then the sequences, replace
/// the component. A sequence with a step's shape becomes a component [?, …], as of a
/// FixedLenSequenceFeature. Without it, the values of all steps become a component [?], and i64 [?]
/// `<component>.step_splits` says where they are: step s has those from splits[s] up to, but not
/// including, splits[s + 1], as the row_splits of a RaggedFeature.
WorkOpPtr parse_sequence_example(std::vector<FeatureSpec> context,
                                 std::vector<SequenceSpec> sequences,
                                 std::string component = "record", Limits limits = {});

/// Returns a source of CIFAR-10's binary version: {image: u8 [32,32,3], label: i64}. A record has
/// 3,073 bytes: the label, then the red, the green and the blue plane. A label above 9 is
/// data_loss. A truncated file gives its whole rows and then one error. Indexed. Source of the
/// format: https://www.cs.toronto.edu/~kriz/cifar.html. Throws Error{not_found} that lists the
/// missing files.
SourcePtr make_cifar10_source(const Paths& paths, const FileOptions& options);
/// Returns the dataset of `make_cifar10_source`.
inline Dataset cifar10(const Paths& paths, const FileOptions& options = {}) {
  return Dataset(make_cifar10_source(paths, options));
}

/// Returns a source of IDX files (MNIST), plain or gzip: {image: <dtype> [...]} and, with a second
/// file, {label: i64}. Labels of QMNIST, which are i32 [8], count by their first column, the class.
/// Compressed images and labels are kept in memory; plain images are read when
/// needed. A file that holds fewer rows than its header says delivers them and then fails once with
/// data_loss. Indexed. Throws Error{not_found}, and Error{data_loss} for a file that is not IDX or
/// has bytes behind the end of its gzip.
/// Throws Error{invalid_argument} if images and labels differ in number or the labels are not whole
/// numbers.
SourcePtr make_idx_source(const std::string& images_path, const std::string& labels_path,
                          const FileOptions& options);
/// Returns the dataset of `make_idx_source`.
inline Dataset idx(const std::string& images_path, const std::string& labels_path = "",
                   const FileOptions& options = {}) {
  return Dataset(make_idx_source(images_path, labels_path, options));
}
/// Refuses a list, see `images`.
template <std::size_t N>
requires(N > 1) Dataset
    idx(const char* const (&list)[N], const std::string& labels_path = "", FileOptions options = {})
= delete;

/// The options of `csv`.
struct CsvOptions : FileOptions {
  bool header = true;    ///< the first record names the fields
  char delimiter = ',';  ///< between fields; not a quote or an end of line
  /// A column to keep. Its dtype is bytes, i64, f32 or f64.
  struct Column {
    std::string name;            ///< a field of the header
    DType dtype = DType::bytes;  ///< bytes, i64, f32 or f64
    /// The text that replaces an empty field, or one that `na_values` lists. None: such a field is
    /// an error, or an empty text for bytes. A number may be "nan".
    std::optional<std::string> default_value{};
  };
  /// The columns to keep; empty: all, as bytes. Without a header they name the fields in order;
  /// with no columns given these are c0, c1, …
  std::vector<Column> columns{};
  /// Texts that mean a missing value, such as "NA" or "?". Compared as a whole, quoted or not;
  /// blanks around them count, except in columns of numbers.
  std::vector<std::string> na_values{};
};
/// Returns a source of comma-separated values with RFC 4180 quoting: one scalar component for each
/// column. Every record must have as many fields as the header, or as the first record. In a file
/// of several columns, blank lines are skipped; in one of a single column, a blank line is an empty
/// field, except at the end. Blank lines, which have spaces at most, may stand in front of a
/// header. Another number of fields, a quote that is not closed, and a field that is not a number
/// are errors of the record. Carriage returns in front of an end of line belong to it, so \r\r\n
/// ends a line, too; a file whose lines end in \r alone is refused. If the header does not name the
/// first of several columns, as pandas writes it for row numbers, it is c0. A byte order mark is
/// skipped. An f32 below 1.2e-38 is 0. Indexed by line. Throws Error{not_found} that lists missing
/// files. Throws Error{invalid_argument} for files whose headers differ, headers above 1 MiB,
/// columns that do not exist, have no name or are named twice, dtypes that a field can't have, and
/// defaults that are not numbers. Throws Error{data_loss} for files of another format
/// (other_format.h).
SourcePtr make_csv_source(const Paths& paths, const CsvOptions& options);
/// Returns the dataset of `make_csv_source`.
inline Dataset csv(const Paths& paths, const CsvOptions& options = {}) {
  return Dataset(make_csv_source(paths, options));
}

/// Returns a source of lines: {line: bytes}. A line ends with \n or \r\n, which do not belong to
/// it, or with the file. Any other \r is text; TensorFlow drops it everywhere. Indexed. Throws
/// Error{not_found} that lists the missing files.
SourcePtr make_text_lines_source(const Paths& paths, const FileOptions& options);
/// Returns the dataset of `make_text_lines_source`.
inline Dataset text_lines(const Paths& paths, const FileOptions& options = {}) {
  return Dataset(make_text_lines_source(paths, options));
}

/// The options of `fixed_records`.
struct FixedRecordOptions : FileOptions {
  std::uint64_t header_bytes = 0;  ///< bytes to skip at the start of each file
  std::uint64_t footer_bytes = 0;  ///< bytes to skip at its end
};
/// Returns a source of records of `record_bytes` bytes: {record: u8 [record_bytes]}. They lie
/// between each file's header and footer. A truncated file gives its whole records and then one
/// error. Any bytes do: the format is not looked at. Indexed. Throws Error{not_found} that lists
/// the missing files, Error{invalid_argument} for records of no bytes, and Error{data_loss} for a
/// file that is shorter than its header and footer.
SourcePtr make_fixed_records_source(const Paths& paths, std::uint64_t record_bytes,
                                    const FixedRecordOptions& options);
/// Returns the dataset of `make_fixed_records_source`.
inline Dataset fixed_records(const Paths& paths, std::uint64_t record_bytes,
                             const FixedRecordOptions& options = {}) {
  return Dataset(make_fixed_records_source(paths, record_bytes, options));
}

/// The options of `token_shards`.
struct TokenShardsOptions : FileOptions {
  DType stored = DType::u16;    ///< of tokens in files without a header: u16 or u32
  DType dtype = DType::i32;     ///< of tokens in elements: i32, i64, u16 or u32
  bool keep_remainder = false;  ///< the rest of a file is a shorter window, of 2 tokens at least
};
/// Returns a source of windows of tokens: {tokens: <dtype> [window + 1]}. The inputs of a window
/// are its first `window` tokens; the targets are all but the first. Windows begin every `window`
/// tokens, so neighbours share a token, and none crosses the end of a file. With `keep_remainder`
/// the spec is [?]: use `padded_batch` or `ragged_batch`, because `batch` stacks no short window.
///
/// Files are those of llm.c, whose header gives the dtype of the tokens (magic 20240520 version 1:
/// u16; 20240801 version 7: u32), and of nanoGPT, which have no header: `stored` says what they
/// hold. Both may be mixed. Numbers are little-endian. Source of the formats:
/// https://github.com/karpathy/llm.c/blob/master/dev/data/data_common.py,
/// https://github.com/karpathy/nanoGPT/blob/master/data/openwebtext/prepare.py.
///
/// Indexed: the number of windows follows from the sizes of the files, so nothing but headers is
/// read to make the source. `shuffle()` is a perfect shuffle of the windows of all files. `shard`
/// behind it gives the same order for any number of ranks. A u32 token above 2147483647 that must
/// become i32 is data_loss, the error of its window.
///
/// Throws Error{not_found} that lists the missing files. Throws Error{data_loss}, naming the file
/// and the numbers, for a header of another version or byte order, a number of tokens that the
/// file's size contradicts, and a file without a header that ends within a token. Throws
/// Error{invalid_argument} for a window below 1, other dtypes, u32 tokens that must become u16, and
/// if no file has a whole window. Throws Error{out_of_range} for windows above the limit.
SourcePtr make_token_shards_source(const Paths& paths, std::int64_t window,
                                   const TokenShardsOptions& options);
/// Returns the dataset of `make_token_shards_source`.
inline Dataset token_shards(const Paths& paths, std::int64_t window,
                            const TokenShardsOptions& options = {}) {
  return Dataset(make_token_shards_source(paths, window, options));
}

/// Returns a source of the rows (outermost dimension) of .npy arrays, one array after the other:
/// {value: <dtype> [...]}. Values of two bytes without a type (V2) are bf16: ml_dtypes and JAX
/// write bfloat16 so. A truncated file gives its whole rows and then one error. Indexed. Throws
/// Error{not_found} that lists the missing files, and Error{data_loss} with the offset of the fault
/// in a header. Throws Error{invalid_argument} for a dtype that no tensor holds, and for an array
/// without rows, in Fortran order, or with rows that differ from the first array's.
SourcePtr make_npy_source(const Paths& paths, const FileOptions& options);
/// Returns the dataset of `make_npy_source`.
inline Dataset npy(const Paths& paths, const FileOptions& options = {}) {
  return Dataset(make_npy_source(paths, options));
}

/// Returns a source of the rows (outermost dimension) of tensors in memory. Each record views them.
/// Indexed. Throws Error{invalid_argument} naming the component that is a scalar or has another
/// number of rows.
SourcePtr make_tensors_source(Element columns);
/// Returns the dataset of `make_tensors_source`.
inline Dataset tensors(Element columns) {
  return Dataset(make_tensors_source(std::move(columns)));
}

/// Returns a source of one element. Throws Error{invalid_argument} if it has no components.
SourcePtr make_element_source(Element element);
/// Returns the dataset of `make_element_source`.
inline Dataset from_element(Element element) {
  return Dataset(make_element_source(std::move(element)));
}

/// Returns a source of {value: i64}: start, start + step, … while below stop (above, for a negative
/// step). Indexed. Throws Error{invalid_argument} for a step of 0.
SourcePtr make_range_source(std::int64_t start, std::int64_t stop, std::int64_t step);
/// Returns the dataset of `make_range_source`.
inline Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return Dataset(make_range_source(start, stop, step));
}
/// Returns the numbers from 0 to `stop` - 1.
inline Dataset range(std::int64_t stop) {
  return range(0, stop);
}

/// A callback that fills `out` and returns true, or returns false at the end. One thread at a time
/// calls it.
using Generator = std::function<bool(Element& out)>;
/// Returns a source of the elements of a user's callback; `make` returns a fresh generator for each
/// pass. A stream. An exception of the generator, or an element that does not fit `spec`, is that
/// record's error; then the generator is called for the next. Throws Error{invalid_argument} for an
/// empty callable.
SourcePtr make_generate_source(std::function<Generator()> make, Spec spec, std::string name);
/// Returns the dataset of `make_generate_source`.
inline Dataset generate(std::function<Generator()> make, Spec spec, std::string name = "generate") {
  return Dataset(make_generate_source(std::move(make), std::move(spec), std::move(name)));
}

/// A distribution of numbers: a constant, or a value drawn for each record from the record's own
/// random numbers.
struct Distribution {
  /// The kind of the distribution, and the one that this is.
  enum class Kind { constant, uniform, lognormal, pareto } kind = Kind::constant;
  double a = 0;       ///< constant: the value; uniform: low; lognormal: median; pareto: least
  double b = 0;       ///< uniform: high; lognormal: sigma; pareto: exponent
  double max = 1e18;  ///< larger draws are cut to this
};

/// The options of `synthetic`. As text for --synthetic:
/// "count=10000,bytes=lognormal:110000:0.5,cost_us=50,…"; docs/stages.md ("Synthetic records")
/// lists its keys.
struct SyntheticOptions {
  std::uint64_t count = 10'000;                               ///< records
  Distribution bytes{Distribution::Kind::constant, 1024, 0};  ///< size of a record
  Distribution read_us{};  ///< microseconds to read a record, waited for off the compute threads
  Distribution cost_us{};  ///< microseconds of computing for each record, in the stage that follows
  double fault_share = 0;  ///< share of records that fail to read
  /// If both are positive, records are JPEGs of this size, and `bytes` is ignored.
  int image_height = 0, image_width = 0;
  std::uint64_t seed = 0;  ///< other seeds give other records
};
/// Returns the options that `text` describes. Throws Error{invalid_argument} naming the part that
/// is wrong.
SyntheticOptions parse_synthetic(const std::string& text);
/// Returns a dataset of made-up records: {data: bytes, index: i64} or, for images, {image: bytes,
/// label: i64, key: bytes}. Indexed. The same options give the same records.
Dataset synthetic(SyntheticOptions options);

}  // namespace penstock
