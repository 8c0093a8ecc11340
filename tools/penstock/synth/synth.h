// Synthetic data sets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipelines/numbers.h"

namespace penstock::tool {

struct SynthOptions {
  std::string folder;
  std::string format = "folder";  ///< folder, tar, tfrecord, cifar10, idx, csv
  std::uint64_t count = 1000;
  Extent least{375, 500};  ///< sides are drawn between `least` and `most`…
  Extent most{375, 500};
  double heavy_tail = 0;  ///< …and multiplied by exp(normal(0, this) / 2)
  int classes = 10;
  int shards = 1;
  int quality = 90;
  bool progressive = false;
  std::string compression = "none";
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: all cores
  double corrupt_share = 0;
  std::vector<std::string> faults;  ///< empty: all faults that the format has
  bool force = false;               ///< write into a folder that is not empty
};

struct SynthResult {
  std::uint64_t samples = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t bytes = 0;  ///< of the samples
  std::string manifest;     ///< path; empty if nothing is corrupted
  bool stopped = false;     ///< by `progress`
};

/// Returns the faults that a format has; see image_faults for those of images. "crc" (tfrecord): a
/// wrong checksum; "label" (cifar10): label 255; "field" (csv): text in place of a number.
std::vector<std::string> faults_of(const std::string& format);

/// Throws UsageError for options that contradict each other.
void check(const SynthOptions& options);

/// Writes the data set: the same bytes for the same options, whatever the number of threads. If
/// samples are corrupted, manifest.jsonl in the folder has a line for each of them. `progress` is
/// called now and then with the number of samples written so far; if it returns false, the call
/// stops. Throws UsageError if the folder is not empty, and Error{unavailable} if it can't be
/// written. The folder may be one of s3:// or gs://. Each file appears in full or not at all there.
SynthResult synthesise(const SynthOptions& options,
                       const std::function<bool(std::uint64_t)>& progress);

}  // namespace penstock::tool
