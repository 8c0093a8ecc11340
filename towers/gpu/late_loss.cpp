#include "towers/gpu/late_loss.h"

#include <string>
#include <utility>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

constexpr std::size_t kValues = 4;
constexpr std::size_t kBytes = kValues * sizeof(double);

}  // namespace

LateLoss::LateLoss(std::vector<Gpu*> gpus)
    : gpus_(std::move(gpus)),
      pinned_(gpus_.front()->device()->pinned()),
      values_(reinterpret_cast<double*>(pinned_->allocate(kBytes * gpus_.size()))) {
  for (Gpu* gpu : gpus_) copied_.emplace_back(gpu->device());
}

LateLoss::~LateLoss() {
  if (waiting_)
    for (const Event& copied : copied_) copied.view().synchronize();
  pinned_->deallocate(reinterpret_cast<std::byte*>(values_), kBytes * gpus_.size());
}

std::optional<LateLoss::Told> LateLoss::last() {
  if (!waiting_) return std::nullopt;
  double wrong = 0;
  Loss& loss = waiting_->loss;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    copied_[g].view().synchronize();
    gpus_[g]->device()->check();
    const double* values = values_ + kValues * g;
    loss.sum += values[0];
    loss.correct += static_cast<std::int64_t>(values[1]);
    loss.regularization += values[2];
    wrong += values[3];
  }
  const Told told = *std::exchange(waiting_, std::nullopt);
  if (wrong > 0)
    throw Error(ErrorCode::mismatch, "a label or an id in the batch of step " +
                                         std::to_string(told.step) +
                                         " is out of range for the model");
  return told;
}

std::optional<LateLoss::Told> LateLoss::end(std::uint64_t step, std::int64_t rows) {
  std::optional<Told> before = last();
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    gpus_[g]->stream().copy({values_ + kValues * g, gpus_[g]->result().bytes(), kBytes});
    gpus_[g]->stream().record(copied_[g]);
  }
  waiting_ = Told{step, {}};
  waiting_->loss.rows = rows;
  return before;
}

}  // namespace penstock::towers
