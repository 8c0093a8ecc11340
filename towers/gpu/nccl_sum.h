// Gradients of towers on GPUs.
#pragma once

#include <functional>
#include <memory>

#include "towers/strategies/gradient_exchange.h"

namespace penstock::towers {

/// NCCL's ranks are devices: towers that share one add up there first, in the order of towers;
/// where all share one, that is all, and NCCL is not looked for. All of it is enqueued by the
/// exchange's thread on a stream of its own on each device, which events order behind the towers'
/// and in front of what they do next; the host waits for nothing. Ranks take part in one group
/// call, so that their order is the same on all.
///
/// `on_error` is told, by a thread that looks after what is under way, which rank's communicator
/// reported or whose exchange did not end in `timeout_s`; or its call throws Error{unavailable}.
/// Once `fail` was called, communicators are aborted, so that streams go on: at once, or behind the
/// call that is using them. Such a call only enqueues; one that NCCL does not come back from, while
/// it makes connections, is waited for.
std::unique_ptr<BucketSum> make_nccl_sum(VariableStore& store, std::size_t buckets,
                                         double timeout_s,
                                         std::function<void(const Status&)> on_error);

}  // namespace penstock::towers
