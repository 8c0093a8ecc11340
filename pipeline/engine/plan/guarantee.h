// Statements about a graph that hold before it runs: its guarantee, and how a stopped run of it can
// resume.
#pragma once

#include <string>

#include <penstock/dataset.h>
#include <penstock/stats.h>

#include "pipeline/stage/node.h"

namespace penstock {

Guarantee guarantee_of(const Node& root);
/// Returns a line with the audit of an epoch that was delivered to its end.
std::string line_of(const EpochStats& epoch, Guarantee guarantee);
/// False if elements come in the order in which they were finished.
bool ordered(const Node& root);
/// False if the graph has a user's stream, which may give other records when it is made again. A
/// record with an index is read where it is needed, and may be read again.
bool again_the_same(const Node& root);
/// Returns how many elements (rows, in batches) an epoch of this graph has; -1 if that is unknown.
std::int64_t expected_elements(const Node& root);
/// Returns why no position of this graph can be saved; empty if positions can be saved. An
/// unordered map gives elements in another order when it is asked again. So only stages that treat
/// each element by itself may stand after it, and at most one batch that is written in place.
std::string unsavable(const Node& root);
/// Returns why a run of this graph cannot resume with another number of consumers; empty if it can.
/// It can if `shard` stands after every shuffle, and only maps, at most one batch that is written
/// in place, and prefetches stand after `shard`.
std::string inelastic(const Node& root);

}  // namespace penstock
