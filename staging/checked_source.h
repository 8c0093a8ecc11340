// Batches whose JPEGs their device decodes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/feed.h>
#include <penstock/plan.h>

#include "pipeline/core/run_control.h"
#include "pipeline/core/setbacks.h"
#include "staging/scan_check.h"
#include "staging/source.h"

namespace penstock {

/// A check for the batches of a plan, and its bounds.
struct CheckForFeed {
  std::unique_ptr<ScanCheck> check{};  ///< null: the host decodes all JPEGs
  std::uint64_t scan_bytes = 0;        ///< the most bytes of a JPEG
  std::uint64_t device_bytes = 0;      ///< that the check takes
  bool drops_remainder = false;        ///< see Plan::drops_remainder
};
/// The batches of a run that leaves JPEGs to a device. It lets the device check each batch. If it
/// does not decode an image, the run goes back to this batch, and the host decodes until it has
/// been made again. So a bad image has the host's result, in its place, and no batch is delivered
/// that was made behind one that failed.
class CheckedSource final : public ForwardingSource {
 public:
  /// `control` is that of the source's run.
  CheckedSource(BatchSourcePtr source, std::shared_ptr<RunControl> control, CheckForFeed check);
  Next next() override;

 private:
  /// True if the result is that of a run without a device.
  bool is_final(Next& next);

  const std::shared_ptr<RunControl> control_;
  const std::unique_ptr<ScanCheck> check_;
  std::uint64_t scan_bytes_;  // 0: the host decodes all
  const bool drops_remainder_;
  Setbacks setbacks_;
  std::uint64_t by_host_ = 0;  // batches to deliver until JPEGs are left to the device again
};

/// Makes a check on `device` if the batches have images for a device and end the graph, if the
/// device has memory of its own, and if `device_memory` allows it. `towers`: the towers that a
/// batch is divided among.
CheckForFeed check_for_feed(const Plan& plan, const FeedOptions& options, std::int64_t towers,
                            const DevicePtr& device);

}  // namespace penstock
