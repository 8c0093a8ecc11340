// Towers: what each computes with, and their threads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "towers/collective.h"
#include "towers/gpu/gpu.h"
#include "towers/trainer.h"

namespace penstock::towers {

/// A model on each device, with variables that are shared as VariableStore says. `options` are
/// complete.
class TowerSet {
 public:
  /// `parts`: the devices among which one tower's model is divided, if there are several. Throws
  /// Error{not_found} where a cuda device's libraries are missing.
  TowerSet(const ModelMaker& make, const TrainOptions& options,
           const std::vector<DevicePtr>& parts);

  int size() const noexcept { return store_.towers(); }
  VariableStore& store() noexcept { return store_; }
  Model& model(int tower) { return *models_[static_cast<std::size_t>(tower)]; }
  Gpu* gpu(int tower) const { return store_.gpu(tower); }
  StreamView stream(int tower) const { return streams_[static_cast<std::size_t>(tower)]; }
  /// The towers' own meetings; `fail` ends them.
  Collective& others() noexcept { return *others_; }

  /// The batch may be computed on from here: by this thread, or in the order of the tower's stream.
  void take(StagedBatch& batch, int tower) const;
  /// What layers are told of a batch of the step; elements are dealt as `mode` says.
  Pass pass(int tower, const StagedBatch& batch, bool training, std::uint64_t step,
            FeedMode mode) const;
  /// Runs `body` for each tower on a thread of its own. After the first error, `cancel` is called
  /// with it. Throws it, naming the tower, once all have ended.
  void run(const std::function<void(int)>& body, const std::function<void(const Status&)>& cancel);

 private:
  const int threads_;
  const std::uint64_t seed_;
  const std::int64_t batch_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  VariableStore store_;
  std::vector<ModelPtr> models_;
  std::vector<Stream> own_streams_;
  std::vector<StreamView> streams_;
  std::unique_ptr<Collective> others_;
  std::mutex mutex_;
};

}  // namespace penstock::towers
