// The work of a profiler's tower on a batch on its device.
#pragma once

#include <optional>
#include <vector>

#include <penstock/image.h>
#include <penstock/reconstruct.h>
#include <penstock/spec.h>
#include <penstock/staged_batch.h>

#include "tools/penstock/report/digest.h"

namespace penstock::tool {

/// Makes the images that were left to the device, and digests the data that a step would see. Used
/// by one thread.
class TowerWork {
 public:
  /// `batches`: their spec. `ops`: the chain that was left to the device, if there is one.
  /// `digest`: receives every batch; null: none. It must outlive this object.
  TowerWork(DevicePtr device, Spec batches, std::optional<ImageOps> ops, Digest* digest);
  TowerWork(const TowerWork&) = delete;
  TowerWork& operator=(const TowerWork&) = delete;
  /// REQUIRES: the requested work has ended.
  ~TowerWork();

  /// Requests the images on the stream; with a digest, waits for them. Throws the errors of
  /// Reconstructor.
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
  std::size_t bytes_ = 0;  // the room in images_
  std::int64_t rows_ = 0;
};

}  // namespace penstock::tool
