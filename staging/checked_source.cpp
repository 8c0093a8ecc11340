#include "staging/checked_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <penstock/log.h>

#include "pipeline/image/on_device.h"
#include "staging/layout.h"

namespace penstock {

CheckedSource::CheckedSource(BatchSourcePtr source, std::shared_ptr<RunControl> control,
                             CheckForFeed check)
    : ForwardingSource(std::move(source)),
      control_(std::move(control)),
      check_(std::move(check.check)),
      scan_bytes_(control_->go_back ? check.scan_bytes : 0),
      drops_remainder_(check.drops_remainder) {
  control_->scan_bytes.store(scan_bytes_, std::memory_order_release);
}

Next CheckedSource::next() {
  while (scan_bytes_ > 0 && by_host_ == 0) {
    const std::shared_ptr<const SavedRun> before = control_->mark();
    Next next = source().next();
    if (is_final(next)) {
      if (next.has_value()) setbacks_.pass();
      return next;
    }
    control_->scan_bytes.store(0, std::memory_order_release);
    by_host_ = next.is_end() ? 1 : setbacks_.add();
    const bool made = next.has_value();
    if (made) next = Next(End{});  // gives its memory back
    if (!control_->go_back(*before)) return made ? source().next() : std::move(next);
  }
  Next next = source().next();
  if (by_host_ == 0) return next;
  if (next.has_value()) --by_host_;
  if (next.is_end()) by_host_ = 0;
  if (by_host_ == 0) control_->scan_bytes.store(scan_bytes_, std::memory_order_release);
  return next;
}

// An error may stand behind images that were not checked. So may an end, if these are too few for a
// batch.
bool CheckedSource::is_final(Next& next) {
  if (next.is_error()) return false;
  if (next.is_end()) return !drops_remainder_;
  if (next.value().size() == 0) return true;  // made by another process
  try {
    const std::int64_t undecoded = check_->undecoded(next.value());
    image::count_undecoded(static_cast<std::uint64_t>(undecoded));
    return undecoded == 0;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost || error.code() == ErrorCode::no_progress) throw;
    log_once(LogLevel::warning, "check of scans",
             "from here on, JPEGs are decoded on the host: " + error.cause());
    scan_bytes_ = 0;
    return false;
  }
}

namespace {

/// True if the images of a plan go straight into the batches of a feed, and a run of it goes back
/// without making elements again.
bool leaves_scans(const Plan& plan) {
  const auto makes_batches = [](const PlannedStage& stage) { return stage.batches.has_value(); };
  return plan.batches() && plan.batches()->in_place && plan.rows()->most > 0 &&
         std::ranges::count_if(plan.stages(), makes_batches) == 1 && plan.resume() != Resume::work;
}

/// True if elements may be left over that are too few for a batch.
bool may_leave_out(const Plan& plan, OnError on_error) {
  const std::int64_t elements = plan.elements().cardinality();
  return plan.drops_remainder() &&
         (on_error == OnError::skip || elements < 0 || elements % plan.rows()->most != 0);
}

}  // namespace

CheckForFeed check_for_feed(const Plan& plan, const FeedOptions& options, std::int64_t towers,
                            const DevicePtr& device) {
  const std::optional<std::string> images = ScanCheck::images_of(plan.spec());
  if (!images || !leaves_scans(plan)) return {};
  if (device->unified() || device->id().kind == DeviceKind::other) return {};
  const ScanCheck::Options bounds{
      .rows = plan.rows()->most,
      .max_bytes = options.max_bytes * static_cast<std::uint64_t>(towers),
      .watchdog_s = options.watchdog_s};
  CheckForFeed made{.scan_bytes = bounds.max_bytes / static_cast<std::uint64_t>(bounds.rows),
                    .device_bytes = ScanCheck::device_bytes(plan.spec(), *images, bounds),
                    .drops_remainder = may_leave_out(plan, options.run.on_error)};
  const std::uint64_t slot =
      BatchLayout(plan.spec(), bounds.rows / towers, options.max_bytes).bytes();
  const std::uint64_t slots =
      slot * static_cast<std::uint64_t>(options.slots) * static_cast<std::uint64_t>(towers);
  const std::uint64_t room = options.device_memory > 0
                                 ? std::min(options.device_memory, device->memory().free_bytes)
                                 : device->memory().free_bytes;
  if (made.device_bytes + slots > room) return {};
  try {
    made.check = std::make_unique<ScanCheck>(device, plan.spec(), *images, bounds);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    log_once(LogLevel::warning, "scans on " + device->id().to_string(),
             "JPEGs are decoded on the host: " + error.cause());
    return {};
  }
  return made;
}

}  // namespace penstock
