// Sums of gradients of towers on GPUs.
#pragma once

#include <functional>
#include <memory>

#include "towers/strategies/gradient_exchange.h"

namespace penstock::towers {

/// Sums gradients by NCCL. NCCL's ranks are devices. Towers that share a device first add up there,
/// in the order of towers. If all towers share one device, that is all; NCCL is then opened only if
/// `options.nccl_alone`. The exchange's thread enqueues all work, on a stream of its own on each
/// device. Events order this work after the towers' work and before their next work; the host waits
/// for nothing. Ranks take part in one group call, so their order is the same on all.
///
/// Errors go to `on_error`, called by a thread that watches running exchanges. It names the rank
/// whose communicator reported an error, or whose exchange did not end in `options.timeout_s`.
/// Calls may also throw Error{unavailable}. After `fail`, communicators are aborted so that streams
/// continue: at once, or after the call that is using them. Such a call only enqueues. If NCCL does
/// not return from it while it makes connections, the abort waits for it. `options.peers` are other
/// processes whose devices are ranks too, as many in each; null: none.
std::unique_ptr<BucketSum> make_nccl_sum(VariableStore& store, std::size_t buckets,
                                         const StrategyOptions& options,
                                         std::function<void(const Status&)> on_error);

/// Sums gradients by the rule for sums, with those of other processes. Gradients are weighted on
/// their devices, copied to the host, added up there and by `peers`, and copied back. The
/// exchange's thread waits for the copies; meanwhile towers continue.
std::unique_ptr<BucketSum> make_relayed_sum(VariableStore& store, std::size_t buckets,
                                            Peers& peers);

}  // namespace penstock::towers
