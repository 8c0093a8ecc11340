#include "cluster/etcd_address.h"

#include <algorithm>

#include <penstock/error.h>

namespace penstock::cluster {

EtcdAddress parse_etcd_address(std::string_view text, const std::string& what, EtcdName name) {
  const auto refuse = [&](const char* why) -> void {
    throw Error(ErrorCode::invalid_argument, what + ": " + why);
  };
  std::string_view rest = text.substr(kEtcdScheme.size());
  const std::size_t slash = rest.find('/');
  EtcdAddress address;
  if (slash != std::string_view::npos) address.job = rest.substr(slash + 1);
  constexpr std::string_view kLetters =
      "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (address.job.empty() || address.job.size() > 200 ||
      address.job.find_first_not_of(kLetters.substr(name == EtcdName::job ? 1 : 0)) !=
          std::string::npos ||
      address.job.starts_with('/') || address.job.ends_with('/') ||
      address.job.find("//") != std::string::npos)
    refuse(name == EtcdName::folder
               ? "expected the workers' folder after etcd's addresses: etcd://HOST:PORT/FOLDER, of "
                 "letters, digits, '.', '_' and '-', with a '/' between folders"
               : "expected the job's name after etcd's addresses: etcd://HOST:PORT/JOB, of "
                 "letters, digits, '.', '_' and '-'");
  rest = rest.substr(0, slash);
  while (address.members.size() <= 16) {
    const std::size_t comma = rest.find(',');
    address.members.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (address.members.size() > 16) refuse("more than 16 members of etcd");
  return address;
}

}  // namespace penstock::cluster
