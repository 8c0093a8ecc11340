// Several hosts on one machine: network namespaces on one bridge, with the addresses 10.78.0.1 and
// so on. Their links can be cut. Needs root.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

namespace penstock::test {

/// The hosts of a test; removed at the end of the scope.
class Hosts {
 public:
  explicit Hosts(int count) : count_(count), name_("psk" + std::to_string(::getpid())) {
    made_ = shell("ip netns add " + name_ + " && ip -n " + name_ +
                  " link add name bridge0 type bridge && ip -n " + name_ + " link set bridge0 up");
    for (int host = 0; made_ && host < count; ++host) {
      const std::string n = of(host);
      const std::string link = "v" + std::to_string(host);
      made_ = shell("ip netns add " + n + " && ip -n " + name_ + " link add name " + link +
                    " type veth peer name eth0 netns " + n + " && ip -n " + name_ + " link set " +
                    link + " master bridge0 up && ip -n " + n + " addr add " + address(host) +
                    "/24 dev eth0 && ip -n " + n + " link set eth0 up && ip -n " + n +
                    " link set lo up");
    }
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  ~Hosts() {
    for (int host = 0; host < count_; ++host) shell("ip netns del " + of(host));
    shell("ip netns del " + name_);
  }

  /// False if no namespace can be made here.
  bool made() const noexcept { return made_; }
  static std::string address(int host) { return "10.78.0." + std::to_string(host + 1); }
  /// Returns the words in front of a command that run it on that host.
  std::vector<std::string> on(int host) const { return {"ip", "netns", "exec", of(host)}; }
  void set_link(int host, bool up) const {
    shell("ip -n " + name_ + " link set v" + std::to_string(host) + (up ? " up" : " down"));
  }

 private:
  static bool shell(const std::string& command) {
    return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
  }
  std::string of(int host) const { return name_ + "h" + std::to_string(host); }

  const int count_;
  const std::string name_;
  bool made_ = false;
};

}  // namespace penstock::test
