// What can be said of a graph before it runs: what a stop costs it, and what comes of it.
#pragma once

#include <string>

#include <penstock/dataset.h>
#include <penstock/stats.h>

#include "pipeline/order/node.h"

namespace penstock {

Guarantee guarantee_of(const Node& root);
/// The audit of an epoch that was delivered to its end, as a line.
std::string line_of(const EpochStats& epoch, Guarantee guarantee);
/// False if the order of the elements is that in which they were finished.
bool ordered(const Node& root);
/// False if a source is the user's, and may give other records when it is read again.
bool again_the_same(const Node& root);
/// Elements (rows, of batches) that an epoch of this graph has; -1 if it does not tell.
std::int64_t expected_elements(const Node& root);
/// Why no position of this graph can be saved; empty if it can. An unordered map gives other
/// elements when it is asked again, so behind it only stages may stand that keep what they get
/// apart, and at most one batch that is written in place.
std::string unsavable(const Node& root);
/// Why a run of this graph can't go on with another number of consumers; empty if it can: `shard`
/// stands behind every shuffle, and behind it only maps, at most one batch that is written in
/// place, and prefetches.
std::string inelastic(const Node& root);

}  // namespace penstock
