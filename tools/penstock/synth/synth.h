// Makes data sets up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/penstock/support/numbers.h"

namespace penstock::tool {

struct SynthOptions {
  std::string folder;
  std::string format = "folder";  ///< folder, tar, tfrecord, cifar10, idx, csv
  std::uint64_t count = 1000;
  Extent least{375, 500};  ///< sides are drawn between these two…
  Extent most{375, 500};
  double heavy_tail = 0;  ///< …and multiplied by exp(normal(0, this) / 2)
  int classes = 10;
  int shards = 1;
  int quality = 90;
  bool progressive = false;
  std::string compression = "none";
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: all
  double corrupt_share = 0;
  std::vector<std::string> faults;  ///< empty: all that the format knows
  bool force = false;               ///< write into a folder that is not empty
};

struct SynthResult {
  std::uint64_t samples = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t bytes = 0;  ///< of the samples
  std::string manifest;     ///< path; empty if nothing is corrupted
};

/// The faults that a format knows; see image_faults for those of images. "crc" (tfrecord): a
/// checksum is wrong; "label" (cifar10): 255; "field" (csv): a text for a number.
std::vector<std::string> faults_of(const std::string& format);

/// Throws UsageError for options that do not go together.
void check(const SynthOptions& options);

/// Writes the data set: the same bytes for the same options, whatever the number of threads. Where
/// samples are corrupted, manifest.jsonl beside them has a line for each. `progress` is called now
/// and then with the number of samples that are written. Throws UsageError if the folder is not
/// empty, and Error{unavailable} if it can't be written.
SynthResult synthesise(const SynthOptions& options,
                       const std::function<void(std::uint64_t)>& progress);

}  // namespace penstock::tool
