#include "tools/penstock/synth/synth.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/file_system.h>
#include <penstock/internal/posix.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/process.h>
#include <penstock/remote_files.h>
#include <penstock/rng.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/synth/faults.h"
#include "tools/penstock/synth/jpeg_encode.h"
#include "tools/penstock/synth/output_file.h"
#include "tools/penstock/synth/writer.h"

namespace penstock::tool {
namespace {

constexpr std::uint32_t kSizeOp = 1;
constexpr std::uint32_t kFaultOp = 2;
constexpr std::uint64_t kGroup = 64;  // samples in memory per thread
constexpr int kMostSide = 8192;

using MakeWriter = std::unique_ptr<Writer> (*)(const WriterOptions&);

const std::map<std::string, MakeWriter>& writers() {
  static const std::map<std::string, MakeWriter> kWriters{
      {"folder", make_folder_writer},     {"tar", make_tar_writer},
      {"tfrecord", make_tfrecord_writer}, {"cifar10", make_cifar10_writer},
      {"idx", make_idx_writer},           {"csv", make_csv_writer}};
  return kWriters;
}

bool holds_jpegs(const std::string& format) {
  return format == "folder" || format == "tar" || format == "tfrecord";
}

bool of_format(const std::string& fault) {
  return fault == "crc" || fault == "label" || fault == "field";
}

Extent draw_size(const SynthOptions& options, std::uint64_t index) {
  Rng rng(options.seed, index, kSizeOp);
  const double factor =
      options.heavy_tail > 0 ? std::exp(options.heavy_tail * rng.normal() / 2) : 1;
  const auto side = [&](int least, int most) {
    const auto drawn =
        least + static_cast<int>(rng.below(static_cast<std::uint64_t>(most - least) + 1));
    return std::clamp(static_cast<int>(std::lround(drawn * factor)), 1, kMostSide);
  };
  const int height = side(options.least.height, options.most.height);
  return {height, side(options.least.width, options.most.width)};
}

struct Made {
  Sample sample;
  std::string fault;
  std::string detail;
};

Made make_sample(const SynthOptions& options, const std::vector<std::string>& faults,
                 std::uint64_t index) {
  Made made;
  Sample& sample = made.sample;
  sample.index = index;
  sample.label = static_cast<int>(index % static_cast<std::uint64_t>(options.classes));
  Rng rng(options.seed, index, kFaultOp);
  if (rng.coin(options.corrupt_share)) made.fault = faults[rng.below(faults.size())];
  if (options.format != "csv") {
    const Extent size = draw_size(options, index);
    sample.picture =
        make_picture(options.seed, index, sample.label, options.classes, size.height, size.width);
  }
  if (holds_jpegs(options.format)) {
    // Faults of headers and tables need baseline JPEGs.
    const bool progressive = options.progressive && made.fault.empty();
    sample.encoded = encode_jpeg(sample.picture, {options.quality, progressive, false});
    sample.picture.rgb.clear();
  }
  if (of_format(made.fault)) {
    sample.fault = made.fault;
    made.detail = made.fault == "crc"     ? "the data's checksum is wrong"
                  : made.fault == "label" ? "the label is 255"
                                          : "x0 is a text";
  } else if (!made.fault.empty()) {
    Damaged damaged = damage_image(made.fault, std::move(sample.encoded), rng);
    sample.encoded = std::move(damaged.bytes);
    made.detail = std::move(damaged.detail);
  }
  return made;
}

/// The last failure of several threads, if there is one. Synchronised.
class LastFailure {
 public:
  /// Keeps the exception that the caller handles.
  void keep() noexcept {
    const MutexLock lock(mutex_);
    last_ = std::current_exception();
  }
  void rethrow() {
    const MutexLock lock(mutex_);
    if (last_) std::rethrow_exception(last_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr last_ GUARDED_BY(mutex_);
};

/// Makes samples [first, first + made.size()) on `threads` threads.
void make_group(const SynthOptions& options, const std::vector<std::string>& faults,
                std::uint64_t first, std::vector<Made>& made, int threads) {
  std::atomic<std::size_t> next{0};
  LastFailure failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < made.size(); i = next++)
        made[i] = make_sample(options, faults, first + i);
    } catch (...) {
      failure.keep();
    }
  };
  {
    std::vector<std::jthread> pool;
    try {
      for (int t = 1; t < threads; ++t) pool.emplace_back(work);
    } catch (const std::system_error&) {
      // The threads that could be started do all the work.
    }
    work();
  }
  failure.rethrow();
}

std::string manifest_line(const Made& made, const Place& place) {
  const nlohmann::ordered_json line{{"index", made.sample.index}, {"shard", place.file},
                                    {"offset", place.offset},     {"bytes", place.bytes},
                                    {"fault", made.fault},        {"detail", made.detail}};
  return line.dump() + "\n";
}

UsageError not_empty(const SynthOptions& options) {
  return UsageError("the folder is not empty; --force writes into it anyway", options.folder);
}

/// A store has no folders: what has no objects below it is empty.
void prepare_store(const SynthOptions& options) {
  FileSystem& files = *default_file_system();
  files.create(options.folder + "/manifest.jsonl");  // throws where nothing can be written
  if (!options.force && files.is_directory(options.folder)) throw not_empty(options);
}

void prepare_folder(const SynthOptions& options) {
  if (is_remote(options.folder)) return prepare_store(options);
  refuse_scheme(options.folder);
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  const bool empty = !error && std::filesystem::is_empty(options.folder, error);
  if (error)
    throw Error(ErrorCode::unavailable, "can't make the folder: " + error.message(),
                Provenance{options.folder});
  if (!empty && !options.force) throw not_empty(options);
}

}  // namespace

std::vector<std::string> faults_of(const std::string& format) {
  std::vector<std::string> faults;
  if (holds_jpegs(format)) faults = image_faults();
  if (format == "tfrecord") faults.emplace_back("crc");
  if (format == "cifar10") faults.emplace_back("label");
  if (format == "csv") faults.emplace_back("field");
  return faults;
}

void check(const SynthOptions& options) {
  std::vector<std::string> formats;
  for (const auto& [name, make] : writers()) formats.push_back(name);
  if (!writers().contains(options.format))
    throw UsageError(
        "there is no format " + in_quotes(options.format) + "; there are " + join(formats, ", "),
        "--format");
  const std::vector<std::string> known = faults_of(options.format);
  if (options.corrupt_share > 0 && known.empty())
    throw UsageError("there are no faults for " + options.format, "--corrupt");
  for (const std::string& fault : options.faults)
    if (std::find(known.begin(), known.end(), fault) == known.end())
      throw UsageError("there is no fault " + in_quotes(fault) + " for " + options.format +
                           "; there are " + join(known, ", ") + suggestion(fault, known),
                       "--fault");
  const bool fixed = options.least == options.most && options.heavy_tail == 0;
  if (options.format == "cifar10" && (!fixed || !(options.least == Extent{32, 32})))
    throw UsageError("CIFAR-10's images are 32x32", "--size");
  if (options.format == "idx" && !fixed)
    throw UsageError("all images of an IDX file have the same size", "--size");
  if ((options.format == "cifar10" || options.format == "idx") && options.classes > 255)
    throw UsageError("labels of " + options.format + " are one byte: at most 255 classes",
                     "--classes");
  if (options.format == "folder" && options.shards > 1)
    throw UsageError("a folder has no shards", "--shards");
  if (options.format == "idx" && options.shards > 1)
    throw UsageError("IDX has no shards", "--shards");
  const bool compresses = options.format == "tfrecord" || options.format == "idx";
  if (options.compression != "none" &&
      (!compresses || (options.format == "idx" && options.compression == "zlib")))
    throw UsageError(options.format + " can't be compressed with " + options.compression,
                     "--compression");
}

SynthResult synthesise(const SynthOptions& options,
                       const std::function<bool(std::uint64_t)>& progress) {
  check(options);
  prepare_folder(options);
  const std::vector<std::string> faults =
      options.faults.empty() ? faults_of(options.format) : options.faults;
  const auto writer = writers().at(options.format)(
      {options.folder, options.count, options.classes, options.shards, options.compression});
  const int threads = options.threads > 0 ? options.threads : usable_processors();
  SynthResult result;
  std::unique_ptr<OutputFile> manifest;
  if (options.corrupt_share > 0) {
    result.manifest = options.folder + "/manifest.jsonl";
    manifest = create_file(result.manifest);
  }
  std::vector<Made> made;
  while (result.samples < options.count) {
    made.clear();
    made.resize(
        std::min(options.count - result.samples, kGroup * static_cast<std::uint64_t>(threads)));
    make_group(options, faults, result.samples, made, threads);
    for (const Made& one : made) {
      const Place place = writer->add(one.sample);
      result.bytes += place.bytes;
      if (one.fault.empty()) continue;
      ++result.corrupted;
      manifest->write(manifest_line(one, place));
    }
    result.samples += made.size();
    if (!progress(result.samples)) {
      result.stopped = true;
      return result;
    }
  }
  writer->finish();
  if (manifest) manifest->close();
  return result;
}

}  // namespace penstock::tool
