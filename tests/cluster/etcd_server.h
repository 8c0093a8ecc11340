// A real etcd for tests.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "tests/cluster/free_address.h"
#include "tests/support/files.h"

extern char** environ;

namespace penstock::test {

/// A server of one member, on the loopback interface, that notices ends of leases quickly. Killed
/// at the end of the scope.
class EtcdServer {
 public:
  static bool installed() {
    return std::system("command -v etcd >/dev/null 2>&1") == 0;  // NOLINT(concurrency-mt-unsafe)
  }

  /// `tls`: flags for certificates; with them, it listens by https. `before`: words in front of the
  /// command that run it on another host; `host`: the address of that host.
  explicit EtcdServer(std::vector<std::string> tls = {}, std::vector<std::string> before = {},
                      const std::string& host = {})
      : addresses_(host.empty() ? free_addresses(2) : std::vector{host + ":2379", host + ":2380"}),
        tls_(std::move(tls)),
        before_(std::move(before)) {
    start();
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;
  ~EtcdServer() { end(); }

  /// Returns "host:port".
  const std::string& address() const noexcept { return addresses_[0]; }
  std::string url(const std::string& job) const { return "etcd://" + address() + "/" + job; }
  void signal(int number) const { ::kill(process_, number); }
  /// Ends the server like kill -9. Its data is there again when it starts again.
  void end() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  void start() {
    const std::string scheme = tls_.empty() ? "http://" : "https://";
    const std::string peer = "http://" + addresses_[1];
    std::vector<std::string> words = before_;
    const std::vector<std::string> command{"etcd",
                                           "--data-dir",
                                           folder_ / "data",
                                           "--name",
                                           "one",
                                           "--listen-client-urls",
                                           scheme + addresses_[0],
                                           "--advertise-client-urls",
                                           scheme + addresses_[0],
                                           "--listen-peer-urls",
                                           peer,
                                           "--initial-advertise-peer-urls",
                                           peer,
                                           "--initial-cluster",
                                           "one=" + peer,
                                           "--heartbeat-interval",
                                           "20",
                                           "--election-timeout",
                                           "200",
                                           "--logger",
                                           "zap"};
    words.insert(words.end(), command.begin(), command.end());
    words.insert(words.end(), tls_.begin(), tls_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string log = folder_ / "log";
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    const int failed = posix_spawnp(&process_, argv[0], &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw std::runtime_error("can't start etcd");
    for (int tries = 0; !listens(); ++tries) {
      if (tries == 3000) throw std::runtime_error("etcd does not listen: " + read_file(log));
      usleep(10'000);
    }
  }

 private:
  bool listens() const {
    const std::size_t colon = address().find(':');
    if (!before_.empty()) {
      std::string command;
      for (const std::string& word : before_) command += word + " ";
      command += "bash -c '</dev/tcp/" + address().substr(0, colon) + "/" +
                 address().substr(colon + 1) + "' 2>/dev/null";
      return std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
    }
    boost::asio::io_context context;
    boost::asio::ip::tcp::socket socket(context);
    boost::system::error_code failed;
    const auto port = std::stoi(address().substr(colon + 1));
    socket.connect({boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)},
                   failed);
    return !failed;
  }

  const TempFolder folder_;
  const std::vector<std::string> addresses_;
  const std::vector<std::string> tls_;
  const std::vector<std::string> before_;
  pid_t process_ = -1;
};

}  // namespace penstock::test
