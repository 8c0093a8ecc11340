#include "towers/train/tower_set.h"

#include <new>
#include <string>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "towers/onednn.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {
namespace {

Status naming(int tower, const Status& status) noexcept {
  try {
    const Error& error = status.error();
    return Error(error.code(), "tower " + std::to_string(tower) + ": " + error.cause(),
                 error.where(), error.original());
  } catch (const std::bad_alloc&) {
    return status;
  }
}

/// The first error of the towers. Thread-safe.
class FirstError {
 public:
  /// `cancel` is called with it whenever a tower fails, by one thread at a time.
  explicit FirstError(std::function<void(const Status&)> cancel) : cancel_(std::move(cancel)) {}
  void add(const Status& error) noexcept EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (first_.ok()) first_ = error;
    cancel_(first_);
  }
  /// Throws it, if there is one.
  void check() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!first_.ok()) throw Error(first_.error());
  }

 private:
  const std::function<void(const Status&)> cancel_;
  SlowMutex mutex_;  // held while towers are cancelled
  Status first_ GUARDED_BY(mutex_);
};

}  // namespace

TowerSet::TowerSet(const ModelMaker& make, const TrainOptions& options,
                   const std::vector<DevicePtr>& parts)
    : threads_(options.threads),
      seed_(options.seed),
      batch_(options.batch),
      first_(first_tower(options)),
      all_(all_towers(options)),
      in_turn_(options.towers_in_turn),
      turns_(options.devices.size() / static_cast<std::size_t>(in_turn_)),
      store_(static_cast<int>(options.devices.size()), options.seed) {
  set_compute_threads(threads_);
  const auto add_gpu = [&](const DevicePtr& device) -> Gpu& {
    const GpuLibraries& libraries =
        options.libraries != nullptr ? *options.libraries : gpu_libraries();
    return *gpus_.emplace_back(
        std::make_unique<Gpu>(device, libraries, options.precision, options.deterministic));
  };
  for (int tower = 0; tower < size(); ++tower) {
    const DevicePtr& device = options.devices[static_cast<std::size_t>(tower)];
    const bool on_gpu = computes_on_gpu(options, *device);
    if (on_gpu) {
      Gpu& gpu = add_gpu(device);
      store_.use(tower, gpu);
      streams_.push_back(gpu.stream());
    } else {
      prepare_gemm();
      own_streams_.emplace_back(device, "tower " + std::to_string(tower));
      streams_.push_back(own_streams_.back());
    }
    if (parts.size() > 1) {
      std::vector<Part> all{{device, store_.gpu(tower)}};
      for (std::size_t p = 1; p < parts.size(); ++p)
        all.push_back({parts[p], on_gpu ? &add_gpu(parts[p]) : nullptr});
      store_.divide(std::move(all));
    }
    models_.push_back(make(store_.tower(tower)));
    if (options.on_device)
      images_.push_back(std::make_unique<DeviceImages>(stream(tower), batch_, *options.on_device));
  }
  store_.pack();
  others_ = make_host_collective(size(), options.strategy.timeout_s, options.strategy.peers);
}

// Towers on host devices compute on the calling thread, which thus is their stream.
void TowerSet::take(StagedBatch& batch, int tower) const {
  batch.wait(stream(tower));
  if (gpu(tower) == nullptr) batch.synchronize();
}

Batch TowerSet::to_train(const StagedBatch& batch, int tower) {
  if (images_.empty()) return Batch(batch);
  DeviceImages& images = *images_[static_cast<std::size_t>(tower)];
  const DeviceTensor made = images.make(batch);
  if (gpu(tower) == nullptr) stream(tower).synchronize();  // this thread computes on them
  return {batch, images.component(), made};
}

Pass TowerSet::pass(int tower, const StagedBatch& batch, bool training, std::uint64_t step,
                    FeedMode mode) const {
  const bool interleaved = mode == FeedMode::sharded;
  Pass pass;
  pass.training = training;
  pass.seed = seed_;
  pass.step = step;
  pass.tower = tower;
  pass.valid_rows = batch.valid_rows();
  const int number = first_ + tower;
  pass.first = interleaved ? number : number * batch_;
  pass.stride = interleaved ? all_ : 1;
  pass.gpu = gpu(tower);
  return pass;
}

void TowerSet::run(const std::function<void(int)>& body,
                   const std::function<void(const Status&)>& cancel) {
  FirstError first([&](const Status& error) {
    others_->fail(error);
    cancel(error);
  });
  const auto guarded = [&](int tower) noexcept {
    try {
      set_compute_threads(threads_);
      if (const Gpu* gpu = this->gpu(tower)) gpu->enter();
      body(tower);
    } catch (const dnnl::error& error) {
      first.add(naming(tower, error.status == dnnl_out_of_memory
                                  ? Status::out_of_memory()
                                  : status_from_current_exception()));
    } catch (...) {
      first.add(naming(tower, status_from_current_exception()));
    }
  };
  {
    std::vector<Thread> threads;
    try {
      threads.reserve(static_cast<std::size_t>(size()));
      for (int tower = 0; tower < size(); ++tower)
        threads.push_back(
            start_thread("tower " + std::to_string(tower), [&guarded, tower] { guarded(tower); }));
    } catch (...) {  // running towers must not wait for the others
      first.add(status_from_current_exception());
    }
  }
  first.check();
}

}  // namespace penstock::towers
