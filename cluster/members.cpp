#include "cluster/members.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/error.h>

namespace penstock::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<Role, std::string_view>, 4> kNames{{
    {Role::chief, "chief"},
    {Role::worker, "worker"},
    {Role::parameter_server, "ps"},
    {Role::evaluator, "evaluator"},
}};

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, what + ": " + why);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Json parse_json(std::string_view text, const std::string& what) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    refuse(what, "is no JSON, at byte " + std::to_string(error.byte));
  }
}

/// Addresses by the role's name, in the order of indices.
using Lists = std::map<std::string, std::vector<std::string>, std::less<>>;

std::vector<std::string> addresses_in(const Json& list, const std::string& what,
                                      const std::string& role) {
  std::vector<std::string> addresses;
  const auto add = [&](const Json& address) {
    if (!address.is_string()) refuse(what, "an address of " + role + " is no string");
    addresses.push_back(address.get<std::string>());
  };
  if (list.is_string()) {
    add(list);
  } else if (list.is_array()) {
    for (const Json& address : list) add(address);
  } else {
    refuse(what, "the members of " + role + " are no list");
  }
  return addresses;
}

Lists lists_in(const Json& cluster, const std::string& what) {
  if (!cluster.is_object()) refuse(what, "the cluster is no object of roles and lists");
  Lists lists;
  for (const auto& [role, list] : cluster.items()) lists[role] = addresses_in(list, what, role);
  return lists;
}

Lists lists_in(std::string_view text, const std::string& what) {
  if (text.starts_with('{')) return lists_in(parse_json(text, what), what);
  Lists lists;
  for (const std::string_view part : split(text, ';')) {
    const std::size_t equals = part.find('=');
    const std::string role(equals == std::string_view::npos ? "worker" : part.substr(0, equals));
    if (lists.contains(role)) refuse(what, "lists " + role + " twice");
    const std::string_view members =
        equals == std::string_view::npos ? part : part.substr(equals + 1);
    for (const std::string_view address : split(members, ',')) lists[role].emplace_back(address);
  }
  return lists;
}

std::vector<Peer> members_of(Lists lists, const std::string& what) {
  if (lists.contains("master")) {
    if (lists.contains("chief"))
      refuse(what, "lists both a chief and a master, which are the same");
    auto old = lists.extract("master");
    old.key() = "chief";
    lists.insert(std::move(old));
  }
  for (const auto& entry : lists) {
    const auto is = [&](const auto& known) { return known.second == entry.first; };
    if (std::ranges::none_of(kNames, is))
      refuse(what, "there is no role " + entry.first +
                       "; there are: chief (or master), worker, ps, evaluator");
  }
  if (lists["chief"].size() > 1)
    refuse(what, "lists " + std::to_string(lists["chief"].size()) + " chiefs; there can be one");
  std::vector<Peer> members;
  std::set<std::string> taken;
  for (const auto& [role, name] : kNames) {
    int index = 0;
    for (const std::string& address : lists[std::string(name)]) {
      const std::string who = what + ", " + std::string(name) + " " + std::to_string(index);
      check_address(address, who);
      if (!taken.insert(address).second) refuse(who, address + " is another member's, too");
      members.push_back({role, index++, address});
    }
  }
  if (members.empty()) refuse(what, "has no members");
  const bool trains = members.front().role == Role::chief || members.front().role == Role::worker;
  if (!trains) refuse(what, "has neither a chief nor workers, so no process would train");
  return members;
}

int index_in(const Json& task) {
  const auto found = task.find("index");
  if (found == task.end()) return 0;
  int index = -1;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() <= 1U << 20) {
    index = found->get<int>();
  } else if (found->is_string()) {  // TensorFlow accepts text too
    const auto& text = found->get_ref<const std::string&>();
    const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (wrong != std::errc() || rest != text.data() + text.size()) index = -1;
  }
  if (index < 0) refuse("TF_CONFIG", "the task's index is no number from 0 on");
  return index;
}

}  // namespace

std::string_view name_of(Role role) noexcept {
  for (const auto& [other, name] : kNames)
    if (other == role) return name;
  return "";
}

Role parse_role(std::string_view name) {
  if (name == "master") return Role::chief;
  for (const auto& [role, known] : kNames)
    if (known == name) return role;
  throw Error(ErrorCode::invalid_argument, "there is no role " + std::string(name) +
                                               "; there are: chief, worker, ps, evaluator");
}

std::vector<Peer> parse_members(std::string_view text, const std::string& what) {
  return members_of(lists_in(text, what), what);
}

TfConfig parse_tf_config(std::string_view text) {
  const std::string what = "TF_CONFIG";
  const Json json = parse_json(text, what);
  if (!json.is_object()) refuse(what, "is no object");
  TfConfig config;
  const auto cluster = json.find("cluster");
  const auto task = json.find("task");
  if (cluster == json.end() || cluster->empty()) {
    // Only an evaluator can do anything without others.
    if (task != json.end() && task->is_object() && task->value("type", Json()) == "evaluator")
      config.role = Role::evaluator;
    return config;
  }
  config.members = members_of(lists_in(*cluster, what), what);
  if (task == json.end() || !task->is_object() || !task->contains("type") ||
      !(*task)["type"].is_string())
    refuse(what, "lists a cluster, but no task with a type: which member is this process?");
  config.role = parse_role((*task)["type"].get<std::string>());
  config.index = index_in(*task);
  const bool listed = std::ranges::any_of(config.members, [&](const Peer& peer) {
    return peer.role == config.role && peer.index == config.index;
  });
  if (!listed && config.role != Role::evaluator)
    refuse(what, "the task is " + std::string(name_of(config.role)) + " " +
                     std::to_string(config.index) + ", which the cluster does not list");
  return config;
}

void check_address(std::string_view address, const std::string& what) {
  const std::size_t colon = address.rfind(':');
  const std::string_view host = address.substr(0, colon);
  const std::string_view port =
      colon == std::string_view::npos ? std::string_view() : address.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  int number = 0;
  const auto [rest, wrong] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool good_port =
      wrong == std::errc() && rest == port.data() + port.size() && number >= 1 && number <= 65535;
  const bool good_host = !host.empty() && host.size() <= 253 &&
                         (bracketed || host.find_first_of(": /[]@\t\n") == std::string_view::npos);
  if (!good_port || !good_host)
    refuse(what, "'" + std::string(address.substr(0, 80)) +
                     "' is no address: host:port, with [ ] around an IPv6 host");
}

std::string first_host(std::string_view list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket)
    return std::string(list.substr(0, comma));
  const std::size_t end = list.find_first_of(",-]", bracket);
  std::string host(list.substr(0, bracket));
  host += list.substr(bracket + 1, end == std::string_view::npos ? end : end - bracket - 1);
  const std::size_t close = list.find(']', bracket);
  if (close != std::string_view::npos) {  // a suffix: "rack[1-2]n"
    const std::string_view suffix = list.substr(close + 1);
    host += suffix.substr(0, suffix.find(','));
  }
  return host;
}

}  // namespace penstock::cluster
