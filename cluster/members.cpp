#include "cluster/members.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "cluster/hostlist.h"
#include "cluster/json_text.h"
#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<Role, std::string_view>, 4> kNames{{
    {Role::chief, "chief"},
    {Role::worker, "worker"},
    {Role::parameter_server, "ps"},
    {Role::evaluator, "evaluator"},
}};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Addresses by the role's name, in the order of indices.
using Lists = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Returns the members of {"0": …, "1": …} in the order of their numbers.
std::vector<Json> numbered(const Json& object, const std::string& what, const std::string& field) {
  std::map<std::size_t, Json> members;
  for (const auto& [key, member] : object.items()) {
    std::size_t number = 0;
    const auto [rest, wrong] = std::from_chars(key.data(), key.data() + key.size(), number);
    if (wrong != std::errc() || rest != key.data() + key.size() || key != std::to_string(number))
      refuse(what, field + " has a member '" + key.substr(0, 80) +
                       "'; members must be a list, or numbered from 0");
    members[number] = member;
  }
  std::vector<Json> list;
  for (const auto& [number, member] : members) {
    if (number != list.size())
      refuse(what, field + " has no member " + std::to_string(list.size()) + ", but a member " +
                       std::to_string(number) +
                       ": every process needs the addresses of all members, starting with 0");
    list.push_back(member);
  }
  return list;
}

std::vector<std::string> addresses_in(const Json& list, const std::string& what,
                                      const std::string& field) {
  std::vector<std::string> addresses;
  const auto add = [&](const Json& address) {
    if (!address.is_string()) refuse(what, "an address of " + field + " is not a string");
    addresses.push_back(address.get<std::string>());
  };
  if (list.is_string()) {
    add(list);
  } else if (list.is_array()) {
    for (const Json& address : list) add(address);
  } else if (list.is_object()) {
    for (const Json& address : numbered(list, what, field)) add(address);
  } else {
    refuse(what, "the members of " + field + " must be a list, or numbered from 0");
  }
  return addresses;
}

Lists lists_in(const Json& cluster, const std::string& what) {
  if (!cluster.is_object()) refuse(what, "the cluster must be an object of roles and lists");
  Lists lists;
  for (const auto& [role, list] : cluster.items())
    lists[role] = addresses_in(list, what, "cluster." + role);
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
    refuse(what,
           "lists " + std::to_string(lists["chief"].size()) + " chiefs, but only one is allowed");
  std::vector<Peer> members;
  std::set<std::string> taken;
  for (const auto& [role, name] : kNames) {
    int index = 0;
    for (const std::string& address : lists[std::string(name)]) {
      const std::string who = what + ", " + std::string(name) + " " + std::to_string(index);
      check_address(address, who);
      if (!taken.insert(address).second)
        refuse(who, address + " is also the address of another member");
      members.push_back({role, index++, address});
    }
  }
  if (members.empty()) refuse(what, "has no members");
  const bool trains = members.front().role == Role::chief || members.front().role == Role::worker;
  if (!trains) refuse(what, "has neither a chief nor workers, so no process would train");
  return members;
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
                     "' is not an address: expected HOST:PORT, with [ ] around an IPv6 host");
}

std::string first_host(std::string_view list, const std::string& what) {
  return hosts_in(list, 1, what).front();
}

}  // namespace penstock::cluster
