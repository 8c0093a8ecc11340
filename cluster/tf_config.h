// TensorFlow's description of a job and of a process's task.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"

namespace penstock::cluster {

/// The members in TF_CONFIG, and the one that this process is.
struct TfConfig {
  std::vector<Peer> members{};
  Role role = Role::chief;
  int index = 0;
};

/// Parses TF_CONFIG. Returns nothing for an empty object, which says nothing about a job. Throws
/// what `parse_members` throws. Throws Error{invalid_argument} for text that does not tell all
/// members and which of them this process is. Examples are a task without a cluster, a
/// sparseCluster, and a task without an index if there are several of its type. A task must be
/// listed, unless it is an evaluator.
std::optional<TfConfig> parse_tf_config(std::string_view text);

}  // namespace penstock::cluster
