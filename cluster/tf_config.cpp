#include "cluster/tf_config.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "cluster/json_text.h"
#include "cluster/members.h"
#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

using Json = nlohmann::json;

const std::string kWhat = "TF_CONFIG";

/// Throws an error about TF_CONFIG.
[[noreturn]] void refuse_config(const std::string& why) {
  refuse(kWhat, why);
}

/// Throws the error for a text that has no cluster.
[[noreturn]] void refuse_without_cluster(const Json& config) {
  const auto task = config.find("task");
  const Json type =
      task != config.end() && task->is_object() ? task->value("type", Json()) : Json();
  const std::string what = type.is_string()
                               ? "the task is of type " + type.get<std::string>() + ", but "
                               : std::string();
  const bool evaluates = type == name_of(Role::evaluator);
  refuse_config(
      what +
      "no cluster lists the members of the job: set cluster, such as {\"cluster\": {\"worker\": "
      "[\"HOST:PORT\", \"HOST:PORT\"]}, \"task\": …}" +
      (evaluates ? "; for an evaluator by itself, unset TF_CONFIG and give --role evaluator" : ""));
}

int index_in(const Json& task, const std::vector<Peer>& members, Role role) {
  const auto found = task.find("index");
  if (found == task.end()) {
    const auto count = std::ranges::count(members, role, &Peer::role);
    if (count > 1)
      refuse_config("the task has no index, but the cluster lists " + std::to_string(count) +
                    " members of type " + std::string(name_of(role)) +
                    ": which of them is this process?");
    return 0;
  }
  int index = -1;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() <= 1U << 20) {
    index = found->get<int>();
  } else if (found->is_string()) {  // TensorFlow accepts text too
    const auto& text = found->get_ref<const std::string&>();
    const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (wrong != std::errc() || rest != text.data() + text.size()) index = -1;
  }
  if (index < 0) refuse_config("the task's index must be an integer of at least 0");
  return index;
}

}  // namespace

std::optional<TfConfig> parse_tf_config(std::string_view text) {
  const Json json = parse_json(text, kWhat);
  if (!json.is_object()) refuse_config("must be a JSON object");
  if (json.empty()) return std::nullopt;
  if (json.contains("sparseCluster"))
    refuse_config(
        "sparseCluster lists only the members that this process talks to, as Kubeflow's "
        "enableDynamicWorker does; here every process needs all members, and their number is "
        "fixed: turn enableDynamicWorker off, or set cluster instead, with all members");
  const auto cluster = json.find("cluster");
  if (cluster == json.end() || cluster->empty()) refuse_without_cluster(json);
  if (!cluster->is_object()) refuse_config("the cluster must be an object of roles and lists");
  TfConfig config{.members = parse_members(cluster->dump(), kWhat)};
  const auto task = json.find("task");
  if (task == json.end() || !task->is_object() || !task->contains("type") ||
      !(*task)["type"].is_string())
    refuse_config(
        "has a cluster but no task with a type, so the member of this process is unknown");
  config.role = parse_role((*task)["type"].get<std::string>());
  config.index = index_in(*task, config.members, config.role);
  const bool listed = std::ranges::any_of(config.members, [&](const Peer& peer) {
    return peer.role == config.role && peer.index == config.index;
  });
  if (!listed && config.role != Role::evaluator)
    refuse_config("the task is " + std::string(name_of(config.role)) + " " +
                  std::to_string(config.index) + ", which the cluster does not list");
  return config;
}

}  // namespace penstock::cluster
