#include "towers/gpu/late_loss.h"

#include <string>
#include <utility>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

constexpr std::size_t kBytes = 4 * sizeof(double);

}  // namespace

LateLoss::LateLoss(Gpu& gpu)
    : gpu_(gpu),
      pinned_(gpu.device()->pinned()),
      copied_(gpu.device()),
      values_(reinterpret_cast<double*>(pinned_->allocate(kBytes))) {}

LateLoss::~LateLoss() {
  if (waiting_) copied_.view().synchronize();
  pinned_->deallocate(reinterpret_cast<std::byte*>(values_), kBytes);
}

std::optional<LateLoss::Told> LateLoss::last() {
  if (!waiting_) return std::nullopt;
  copied_.view().synchronize();
  gpu_.device()->check();
  Told told = *std::exchange(waiting_, std::nullopt);
  told.loss.sum = values_[0];
  told.loss.correct = static_cast<std::int64_t>(values_[1]);
  told.loss.regularization = values_[2];
  if (values_[3] > 0)
    throw Error(ErrorCode::invalid_argument, "a label or an id in the batch of step " +
                                                 std::to_string(told.step) +
                                                 " is none that the model has");
  return told;
}

std::optional<LateLoss::Told> LateLoss::end(std::uint64_t step, std::int64_t rows) {
  std::optional<Told> before = last();
  gpu_.stream().copy({values_, gpu_.result().bytes(), kBytes});
  gpu_.stream().record(copied_);
  waiting_ = Told{step, {}};
  waiting_->loss.rows = rows;
  return before;
}

}  // namespace penstock::towers
