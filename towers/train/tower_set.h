// Towers: their models and devices, and the threads that run them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/towers/trainer.h>

#include "towers/gpu/gpu.h"
#include "towers/train/collective.h"
#include "towers/train/device_images.h"

namespace penstock::towers {

/// A model on each device, with variables that are shared as VariableStore says. `options` must be
/// complete.
class TowerSet {
 public:
  /// `parts` are the devices among which one tower's model is divided, if there are several. Throws
  /// Error{not_found} if libraries for a CUDA device are missing.
  TowerSet(const ModelMaker& make, const TrainOptions& options,
           const std::vector<DevicePtr>& parts);

  int size() const noexcept { return store_.towers(); }
  /// Return the number of this process's first tower among all towers, and the number of all
  /// towers.
  int first() const noexcept { return first_; }
  int all() const noexcept { return all_; }
  VariableStore& store() noexcept { return store_; }
  Model& model(int tower) { return *models_[static_cast<std::size_t>(tower)]; }
  Gpu* gpu(int tower) const { return store_.gpu(tower); }
  StreamView stream(int tower) const { return streams_[static_cast<std::size_t>(tower)]; }
  /// Returns the collective that towers meet in; its `fail` ends these meetings.
  Collective& others() noexcept { return *others_; }

  /// Returns the lock that a tower holds while it computes. The virtual towers of a device thus
  /// compute one after the other.
  std::unique_lock<std::mutex> turn(int tower) {
    return std::unique_lock(turns_[static_cast<std::size_t>(tower / in_turn_)]);
  }

  /// Makes the batch usable for the tower's computation: by this thread, or in the order of its
  /// stream.
  void take(StagedBatch& batch, int tower) const;
  /// Returns the components of a batch to train on, which was taken. Makes the images that were
  /// left to the device.
  Batch to_train(const StagedBatch& batch, int tower);
  /// Returns the bytes of an image that was left to the device, as pixels.
  std::uint64_t image_bytes() const { return images_.front()->pixels(); }
  /// Returns the description of a batch that layers receive. Elements are dealt to towers as `mode`
  /// says.
  Pass pass(int tower, const StagedBatch& batch, bool training, std::uint64_t step,
            FeedMode mode) const;
  /// Runs `body` for each tower on a thread of its own. The first error is passed to `cancel`.
  /// Throws that error, which names the tower, once all threads have ended.
  void run(const std::function<void(int)>& body, const std::function<void(const Status&)>& cancel);

 private:
  const int threads_;
  const std::uint64_t seed_;
  const std::int64_t batch_;
  const int first_, all_;
  const int in_turn_;  // towers on each device
  // One for each device. StrategyOptions::turn gives out their locks, so they are no Mutex.
  std::vector<std::mutex> turns_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  VariableStore store_;
  std::vector<ModelPtr> models_;
  std::vector<Stream> own_streams_;
  std::vector<StreamView> streams_;
  std::vector<std::unique_ptr<DeviceImages>> images_;  // of each tower, or empty
  std::unique_ptr<Collective> others_;
};

}  // namespace penstock::towers
