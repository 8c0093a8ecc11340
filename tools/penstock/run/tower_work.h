// What a tower of the profiler does with a batch on its device.
#pragma once

#include <optional>
#include <vector>

#include <penstock/image.h>
#include <penstock/reconstruct.h>
#include <penstock/spec.h>
#include <penstock/staged_batch.h>

#include "tools/penstock/report/digest.h"

namespace penstock::tool {

/// Makes the images that were left to the device, and digests what a step would see. Used by one
/// thread.
class TowerWork {
 public:
  /// For batches of this spec. `ops`: the chain that was left to the device, if one was. `digest`:
  /// null, or what is to know every batch; it must outlive this.
  TowerWork(DevicePtr device, Spec batches, std::optional<ImageOps> ops, Digest* digest);
  TowerWork(const TowerWork&) = delete;
  TowerWork& operator=(const TowerWork&) = delete;
  /// Work that was asked for must have ended.
  ~TowerWork();

  /// Asks the stream for the images; with a digest it waits for them. Throws what Reconstructor
  /// does.
  void run(StreamView stream, const StagedBatch& batch);

 private:
  void make_images(StreamView stream, const StagedBatch& batch);
  void add_to_digest(StreamView stream, const StagedBatch& batch);
  void free_images() noexcept;

  const DevicePtr device_;
  const Spec batches_;
  const std::optional<ImageOps> ops_;
  Digest* const digest_;
  std::optional<Reconstructor> reconstructor_;
  DeviceTensor images_;
  std::size_t bytes_ = 0;  // that images_ has room for
  std::int64_t rows_ = 0;
};

}  // namespace penstock::tool
