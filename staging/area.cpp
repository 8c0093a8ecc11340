#include "staging/area.h"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock {
namespace {

std::shared_ptr<StagingPool> own_pool(const DevicePtr& device, const BatchLayout& layout,
                                      const StagingOptions& options) {
  if (options.slots < 1 || options.ahead < -1 || !(options.watchdog_s > 0)) {
    throw Error(ErrorCode::invalid_argument,
                "a staging area has at least 1 slot, ahead is at least 0 (or -1) and the watchdog "
                "takes more than 0 s; not " +
                    std::to_string(options.slots) + ", " + std::to_string(options.ahead) + ", " +
                    std::to_string(options.watchdog_s));
  }
  return std::make_shared<StagingPool>(device,
                                       StagingPool::Options{.bytes = layout.bytes(),
                                                            .packed = !layout.fixed(),
                                                            .slots = options.slots,
                                                            .memory_bytes = options.memory_bytes});
}

}  // namespace

StagingState::StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
                           const StagingOptions& options, std::shared_ptr<StagingPool> pool)
    : device_(std::move(device)),
      layout_(batches, rows, options.max_bytes),
      pool_(pool ? std::move(pool) : own_pool(device_, layout_, options)),
      slots_(std::min(options.slots, pool_->most())),
      ahead_(options.ahead < 0 ? slots_ - 1 : options.ahead),
      copy_(std::in_place, device_, "copy"),
      guard_(device_->backend().guards() ? std::optional<Stream>(std::in_place, device_, "guard")
                                         : std::nullopt),
      queue_(*pool_, device_, slots_, slots_ + ahead_, layout_.size()),
      watch_(device_, pool_->lock(), queue_, copy_->view().name(), options.watchdog_s),
      producer_(watch_, queue_, layout_, *copy_, pool_->bytes()),
      consumer_(watch_, queue_, guard_, pool_->bytes()),
      reaper_(watch_, queue_) {
  MutexLock lock(watch_.mutex);
  queue_.join();
}

// No other user remains. The requested work must end before its memory is freed.
StagingState::~StagingState() {
  for (const auto& flight : queue_.flights()) {
    if (flight->staged) flight->ready.view().synchronize();
    for (std::size_t i = 0; i < flight->ends; ++i) flight->ended[i].view().synchronize();
  }
  if (guard_) guard_->view().synchronize();
  copy_.reset();
  guard_.reset();
  MutexLock lock(watch_.mutex);
  queue_.leave();
  watch_.changed();
}

void StagingState::stand_in(FlightQueue::Entry entry, std::optional<StagingPermit> permit) {
  if (permit) entry.flight = permit->flight_;
  producer_.stand_in(std::move(entry));
  if (permit) permit->flight_ = nullptr;
}

void StagingState::put_end(std::optional<StagingPermit> permit) {
  stand_in({.kind = FlightQueue::Entry::Kind::end}, std::move(permit));
}

void StagingState::put_error(const Status& error, std::optional<StagingPermit> permit) {
  stand_in({.kind = FlightQueue::Entry::Kind::error, .error = error}, std::move(permit));
}

void StagingState::put_stop() {
  stand_in({.kind = FlightQueue::Entry::Kind::stop}, std::nullopt);
}

StagingState::Taken StagingState::next(std::int64_t asked, std::int64_t until) {
  AreaConsumer::Taken taken = consumer_.next(asked, until);
  Taken result{.error = std::move(taken.error), .over = taken.over, .late = taken.late};
  if (taken.flight != nullptr) result.batch = StagedBatch(shared_from_this(), *taken.flight);
  return result;
}

std::size_t StagingState::size() const {
  MutexLock lock(watch_.mutex);
  return queue_.staged();
}

void StagingState::close() noexcept {
  MutexLock lock(watch_.mutex);
  watch_.close();
  watch_.changed();
  watch_.wake_reaper();
}

void StagingState::fail(const Status& error) noexcept {
  MutexLock lock(watch_.mutex);
  watch_.fail(error);
}

}  // namespace penstock
