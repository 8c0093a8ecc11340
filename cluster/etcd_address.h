// Addresses of jobs that are kept in etcd.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cluster {

inline constexpr std::string_view kEtcdScheme = "etcd://";

/// A parsed address: "etcd://a:2379,b:2379/cifar" is the job "cifar" on the members a:2379 and
/// b:2379 of one etcd cluster.
struct EtcdAddress {
  std::vector<std::string> members{};  ///< "host:port", unchecked
  /// The job, or the folder. Jobs with different names do not see each other.
  std::string job{};
};

/// The kind of name that follows the members: a job, or the folder that holds workers' addresses. A
/// folder may be nested: "etcd://a:2379/vision/workers".
enum class EtcdName : std::uint8_t { job, folder };

/// Parses an address of 1 to 16 members and a name. A name has 1 to 200 letters, digits, '.', '_'
/// or '-'. A folder may have several names, separated by '/'. Throws Error{invalid_argument}, which
/// names `what`, for anything else. REQUIRES: text.starts_with(kEtcdScheme).
EtcdAddress parse_etcd_address(std::string_view text, const std::string& what,
                               EtcdName name = EtcdName::job);

}  // namespace penstock::cluster
