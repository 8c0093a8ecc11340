#include "tools/penstock/graph/kinds.h"

#include <penstock/iterator.h>

namespace penstock::tool {
namespace {

constexpr double kMostCount = 9e18;
constexpr double kMostSide = 65'535;

Parameter paths() {
  return {"paths", ValueType::list, "files or patterns", true};
}

Parameter label_regex() {
  return {"label_regex", ValueType::text,
          "one group: its match on the file's name, or with a / on the path, is the class"};
}

Parameter index_folder() {
  return {"index_folder", ValueType::text, "where offset indices are kept (-: nowhere)"};
}

Parameter count(std::string name, std::string help, bool required = true, double least = 1) {
  return {std::move(name), ValueType::integer, std::move(help), required, least, kMostCount};
}

Parameter extent(std::string help, bool required = true) {
  return {"size", ValueType::extent, std::move(help), required, 1, kMostSide};
}

Parameter share(std::string name, std::string help, double most = 1) {
  return {std::move(name), ValueType::number, std::move(help), false, 0, most};
}

Parameter text(std::string name, std::string help, List choices, bool required = false) {
  Parameter parameter{std::move(name), ValueType::text, std::move(help), required};
  parameter.choices = std::move(choices);
  return parameter;
}

Parameter flag(std::string name, std::string help) {
  return {std::move(name), ValueType::boolean, std::move(help)};
}

Parameter size_of_batch() {
  return {"size", ValueType::integer, "elements", true, 1, 1e9};
}

Parameter drop_remainder() {
  return flag("drop_remainder", "drop the last if it is short");
}

Parameter alpha() {
  return {"alpha", ValueType::number, "of Beta(alpha, alpha) (default 1)", false, 1e-3, 1e6};
}

}  // namespace

const std::vector<Kind>& source_kinds() {
  static const std::vector<Kind> kinds{
      {"images",
       "image files: a folder (all .jpg, .jpeg, .png below it) or a pattern",
       {{"path", ValueType::text, "folder or pattern", true}, label_regex()},
       StageRole::other,
       FlagForm::pattern},
      {"tar",
       "tar shards of samples, as WebDataset groups them",
       {paths(), label_regex(), index_folder()}},
      {"tfrecord",
       "TFRecord files; records are bytes unless example is given",
       {paths(),
        {"example", ValueType::list, "features of the tf.Example inside, each KEY[:DTYPE]"},
        text("compression", "of the files", {"automatic", "none", "gzip", "zlib"}),
        flag("verify", "check the records' CRC32C (default true)"),
        index_folder()}},
      {"cifar10", "CIFAR-10's binary version", {paths()}},
      {"idx",
       "IDX files (MNIST), plain or gzip",
       {{"images", ValueType::text, "the file of images", true},
        {"labels", ValueType::text, "the file of labels"}},
       StageRole::other,
       FlagForm::parts},
      {"csv",
       "comma-separated values",
       {paths(),
        flag("header", "the first line names the columns (default true)"),
        {"columns", ValueType::list, "columns to keep, each NAME[:DTYPE]; default all, as bytes"},
        text("delimiter", "one character (default ,)", {}),
        index_folder()}},
      {"lines", "lines of text files", {paths(), index_folder()}},
      {"records",
       "images that penstock pack wrote; with --record-bytes any records of one length",
       {paths(),
        {"record_bytes", ValueType::bytes, "length of a record", false, 1, 1e15},
        {"header_bytes", ValueType::bytes, "skipped at each file's start", false, 0, 1e15},
        {"footer_bytes", ValueType::bytes, "skipped at each file's end", false, 0, 1e15}},
       StageRole::other,
       FlagForm::paths,
       "",
       true},
      {"npy", "rows of .npy arrays", {paths()}},
      {"range",
       "the integers start, start + step, … below stop",
       {{"stop", ValueType::integer, "not reached", true},
        {"start", ValueType::integer, "default 0"},
        {"step", ValueType::integer, "default 1"}},
       StageRole::other,
       FlagForm::range},
      {"synthetic",
       "records made up: \"count=10000,bytes=lognormal:110000:0.5,cost_us=50\"",
       {{"spec", ValueType::text, "what to make up", true}},
       StageRole::other,
       FlagForm::text},
  };
  return kinds;
}

const std::vector<Kind>& stage_kinds() {
  static const std::vector<Kind> kinds{
      {"shard",
       "keep the elements whose index modulo COUNT is INDEX",
       {count("count", "parts"), count("index", "the part kept", true, 0),
        flag("contiguous", "keep a run of neighbours instead")}},
      {"shuffle",
       "shuffle; without BUFFER perfectly, in O(1) memory (the source must have an index)",
       {count("buffer", "elements buffered, as in tf.data", false),
        count("seed", "its own seed; default the run's", false, 0),
        flag("reshuffle", "a new order at each epoch (default true)")}},
      {"repeat",
       "go through the data COUNT times; without a number for ever",
       {count("count", "times", false, 0)}},
      {"take", "the first COUNT elements", {count("count", "elements", true, 0)}},
      {"skip", "all but the first COUNT elements", {count("count", "elements", true, 0)}},
      {"cache",
       "keep the elements of the first pass, in memory or in FILE, and replay them",
       {{"file", ValueType::text, "for later runs of this pipeline too"}},
       StageRole::other,
       FlagForm::paths,
       "file"},
      {"snapshot",
       "keep them in a file of FOLDER, one for each pipeline",
       {{"folder", ValueType::text, "is made if it is missing", true}}},
      {"unique",
       "drop elements that are equal to one before, in all or in COMPONENT",
       {{"component", ValueType::text, "what is compared"}}},
      {"ignore_errors", "leave out elements that failed, and go on", {}},
      {"enumerate",
       "add an i64 component that counts",
       {{"start", ValueType::integer, "first number (default 0)"},
        {"component", ValueType::text, "its name (default index)"}}},
      {"decode",
       "decode the JPEG or PNG in the component image to RGB, u8, HWC",
       {flag("orient", "apply the EXIF orientation"),
        flag("lenient", "a decoder's warning is no error"),
        flag("on_device", "leave all that it can to the device"),
        {"channels", ValueType::integer, "3: RGB, 1: gray", false, 1, 3},
        {"component", ValueType::text, "default image"}},
       StageRole::decode},
      {"random_resized_crop",
       "crop a random share of area and aspect, then resize to SIZE",
       {extent("N or HxW"), share("min_scale", "of the area (default 0.08)"),
        share("max_scale", "of the area (default 1)"),
        share("min_ratio", "width / height (default 3/4)", 100),
        share("max_ratio", "width / height (default 4/3)", 100)},
       StageRole::image},
      {"resize", "resize to HxW, or the short side to N", {extent("N or HxW")}, StageRole::image},
      {"center_crop",
       "crop the centre; without SIZE that of the resize before it",
       {extent("N or HxW", false)},
       StageRole::image},
      {"random_pad_crop",
       "pad with zeros, then crop at random",
       {extent("N or HxW"), {"padding", ValueType::integer, "pixels a side", true, 0, kMostSide}},
       StageRole::image},
      {"flip",
       "mirror left and right, at random",
       {share("probability", "default 0.5")},
       StageRole::image},
      {"color_jitter",
       "change brightness, contrast, saturation and hue at random, by these half widths: "
       "0.4,0.4,0.4,0.1",
       {share("brightness", "half width (default 0, as of the others)", 100),
        share("contrast", "half width", 100), share("saturation", "half width", 100),
        share("hue", "half width", 0.5)},
       StageRole::image},
      {"normalize",
       "subtract ImageNet's mean and divide by its deviation; gives f32 CHW",
       {text("dtype", "default f32", {"f32", "f16", "bf16"}),
        text("layout", "default chw", {"chw", "hwc"})},
       StageRole::image},
      {"identity", "call a function that the compiler can't see through", {}, StageRole::element},
      {"batch", "put SIZE elements in one", {size_of_batch(), drop_remainder()}, StageRole::batch},
      {"padded_batch",
       "put SIZE elements in one, padded to the largest",
       {size_of_batch(), drop_remainder()},
       StageRole::batch},
      {"ragged_batch",
       "put SIZE elements in one without padding: values, and where each row begins",
       {size_of_batch(), drop_remainder()}},
      {"bucket_by_length",
       "put elements of similar length in one, padded; by sizes or by tokens",
       {{"component", ValueType::text, "whose length counts (default: the first)"},
        {"bounds", ValueType::text, "between the buckets: \"16:32:64\""},
        {"sizes", ValueType::text, "elements of a batch of each bucket: \"64:32:16:8\""},
        count("tokens", "instead of sizes: elements times the longest", false),
        flag("pad_to_boundary", "pad to the bucket's bound less 1"),
        drop_remainder()}},
      {"pack",
       "put sequences in rows of LENGTH, first fit",
       {count("length", "of a row"), count("open", "rows filled at a time (default 16)", false)}},
      {"window",
       "put SIZE neighbours in one, sliding",
       {size_of_batch(), count("shift", "from one to the next (default: the size)", false),
        count("stride", "between two of a window (default 1)", false), drop_remainder()}},
      {"rebatch", "cut batches anew", {size_of_batch(), drop_remainder()}},
      {"mixup",
       "mix the rows of a batch, and their labels of CLASSES classes",
       {count("classes", "labels become shares of so many"), alpha()}},
      {"cutmix",
       "copy a box between the rows of a batch, and mix their labels of CLASSES classes",
       {count("classes", "labels become shares of so many"), alpha(),
        text("layout", "default chw", {"chw", "hwc"})}},
      {"unbatch", "take batches apart", {}},
      {"pad_batches", "make all batches equally large, and equally many in every shard", {}},
      {"prefetch",
       "prepare COUNT batches ahead; without a number the engine chooses",
       {count("count", "batches", false)}},
  };
  return kinds;
}

const Kind& run_kind() {
  static const Kind kind{
      "run",
      "",
      {count("epochs", "times the graph is run (default 1)"),
       count("seed", "of every random number", true, 0),
       {"threads", ValueType::integer, "compute threads (default: all)", true, 1, kMostThreads},
       {"memory", ValueType::bytes,
        "host bytes of slots and everything in flight (default: a quarter of the container's "
        "memory, at most 2GiB)",
        true, 1, kMostCount},
       {"slots", ValueType::integer, "batches prepared ahead", true, 1, 1e6},
       text(
           "io",
           "how files are read (default pread); with mmap a file that is cut while it is used ends "
           "the run",
           {"pread", "io_uring", "mmap"}),
       {"io_threads", ValueType::integer, "threads that wait for files", true, 1, kMostIoThreads},
       text("jpeg_backend",
            "who decodes JPEGs, with the same pixels (default auto: own where it is faster)",
            {"auto", "own", "libjpeg-turbo"}),
       count("batches", "stop after this many batches"),
       text("on_error", "what a bad element does", {"fail", "skip", "retry"}),
       {"max_errors", ValueType::budget,
        "with skip: how many bad elements end the run after all (default: any number)"},
       {"retries", ValueType::integer,
        "times that a read which failed for the moment is done again (default: 4 with retry, else "
        "0)",
        true, 0, 1000},
       text("quarantine", "with skip: append bad records to this file, as JSON lines", {}),
       {"step_ms", ValueType::number, "simulate a consumer that takes this long for each batch",
        true, 0, 1e6}}};
  return kind;
}

const Kind* find_kind(const std::vector<Kind>& kinds, std::string_view name) noexcept {
  for (const Kind& kind : kinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace penstock::tool
