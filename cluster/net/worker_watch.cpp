// The addresses of workers in etcd: "/folder/host:port" is "host:port", under the worker's lease.
#include <algorithm>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "cluster/etcd_address.h"
#include "cluster/net/credentials.h"
#include "cluster/net/etcd_client.h"
#include "cluster/net/etcd_members.h"
#include "cluster/net/etcd_txn.h"
#include "cluster/net/open.h"
#include "cluster/net/worker_link.h"
#include "cluster/net/worker_transport.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The time limit of one member's answer.
constexpr milliseconds kLimit{2000};
/// The pause between two attempts.
constexpr milliseconds kPause{200};
/// A connection without messages for this long is checked.
constexpr milliseconds kAsksAfter{3000};

/// A connection to etcd, with threads that use it until the end.
class EtcdFollower : public WorkerWatch {
 public:
  EtcdFollower(const EtcdAddress& address, const WorkerSecurity& security)
      : folder_("/" + address.job + "/"),
        client_(address.members, options_of(security).tls, kLimit) {}

 protected:
  /// Pauses, or returns earlier if a stop is requested. True if it was.
  bool pause(const std::stop_token& stop, milliseconds time) EXCLUDES(mutex_) {
    const auto until = std::chrono::steady_clock::now() + time;
    const MutexLock lock(mutex_);
    while (!stop.stop_requested() && std::chrono::steady_clock::now() < until)
      wake_.wait_until(mutex_, stop, until);
    return stop.stop_requested();
  }

  const std::string folder_;
  EtcdClient client_;

 private:
  Mutex mutex_;
  StoppableCondVar wake_;
};

class FolderWatch final : public EtcdFollower {
 public:
  FolderWatch(const EtcdAddress& address, const WorkerSecurity& security,
              std::function<void(const std::vector<std::string>&)> changed)
      : EtcdFollower(address, security), changed_(std::move(changed)) {
    // Start this thread first: it ends by itself if the other one cannot start.
    asks_ = start_thread("asking whether etcd stands",
                         [this](const std::stop_token& stop) { ask(stop); });
    follows_ = start_thread("what etcd says of workers",
                            [this](const std::stop_token& stop) { follow(stop); });
  }
  ~FolderWatch() override {
    asks_.request_stop();
    follows_.request_stop();
    client_.hang_up();
    if (asks_.joinable()) asks_.join();
    if (follows_.joinable()) follows_.join();
  }

 private:
  void follow(const std::stop_token& stop) noexcept {
    do {
      try {
        etcdserverpb::RangeResponse now;
        if (!client_.range(all(), now).ok()) continue;
        addresses_.clear();
        for (const etcdserverpb::KeyValue& entry : now.kvs())
          addresses_[entry.key()] = entry.value();
        tell(stop);
        etcdserverpb::WatchCreateRequest request;
        request.set_key(folder_);
        request.set_range_end(EtcdKeys::behind(folder_));
        request.set_start_revision(now.header().revision() + 1);
        static_cast<void>(
            client_.watch(request, stop, [&](const etcdserverpb::WatchResponse& response) {
              if (response.canceled()) return false;
              apply(response);
              tell(stop);
              return true;
            }));
      } catch (...) {  // out of memory: try again
      }
    } while (!pause(stop, kPause));
  }

  void apply(const etcdserverpb::WatchResponse& response) {
    for (const etcdserverpb::Event& event : response.events()) {
      if (event.type() == etcdserverpb::Event::DELETE) {
        addresses_.erase(event.kv().key());
      } else {
        addresses_[event.kv().key()] = event.kv().value();
      }
    }
  }

  void tell(const std::stop_token& stop) {
    std::vector<std::string> now;
    for (const auto& [key, address] : addresses_)
      if (!address.empty() && address.size() <= 300) now.push_back(address);
    std::ranges::sort(now);
    now.erase(std::unique(now.begin(), now.end()), now.end());
    if (stop.stop_requested() || told_ == now) return;
    changed_(now);
    told_ = std::move(now);
  }

  /// A frozen or unreachable member ends no watch. This thread checks for that, and moves the watch
  /// to a member that answers.
  void ask(const std::stop_token& stop) noexcept {
    while (!pause(stop, kAsksAfter)) {
      try {
        etcdserverpb::RangeRequest request = all();
        request.set_count_only(true);
        etcdserverpb::RangeResponse count;
        if (!client_.range(request, count).ok()) client_.hang_up();
      } catch (...) {  // out of memory: try later
      }
    }
  }

  etcdserverpb::RangeRequest all() const {
    etcdserverpb::RangeRequest request;
    request.set_key(folder_);
    request.set_range_end(EtcdKeys::behind(folder_));
    return request;
  }

  const std::function<void(const std::vector<std::string>&)> changed_;
  // Used by the thread `follows_`.
  std::map<std::string, std::string> addresses_;
  std::optional<std::vector<std::string>> told_;
  Thread follows_;
  Thread asks_;
};

class Announcement final : public EtcdFollower {
 public:
  Announcement(const EtcdAddress& etcd, const WorkerSecurity& security, milliseconds timeout,
               const std::string& address)
      : EtcdFollower(etcd, security),
        address_(address),
        lease_time_((timeout + milliseconds(999)) / milliseconds(1000)),
        interval_(std::clamp(timeout / 5, milliseconds(50), milliseconds(5000))) {
    lives_ = start_thread("a worker's signs of life",
                          [this](const std::stop_token& stop) { live(stop); });
  }
  ~Announcement() override {
    lives_.request_stop();
    if (lives_.joinable()) lives_.join();
    try {
      if (lease_ != 0) static_cast<void>(client_.revoke(lease_));
    } catch (...) {  // the lease ends by itself
    }
  }

 private:
  void live(const std::stop_token& stop) noexcept {
    for (bool there = false; !stop.stop_requested();) {
      try {
        there = there ? beat() : appear();
      } catch (...) {  // out of memory: treated as a missing answer
      }
      if (pause(stop, there ? interval_ : kPause)) return;
    }
  }

  bool appear() {
    if (lease_ == 0) {
      etcdserverpb::LeaseGrantResponse granted;
      if (!client_.grant(lease_time_, granted).ok()) return false;
      lease_ = granted.id();
    }
    EtcdTxn txn;
    etcdserverpb::TxnResponse reply;
    const grpc::Status sent =
        client_.txn(txn.put(folder_ + address_, address_, lease_).request(), reply);
    if (!sent.ok() && !may_pass(sent)) lease_ = 0;  // the lease may have ended meanwhile
    return sent.ok();
  }

  /// False if etcd has dropped the lease, because no sign of life came for too long.
  bool beat() {
    etcdserverpb::LeaseKeepAliveResponse reply;
    if (!client_.keep_alive(lease_, reply).ok() || reply.ttl() > 0) return true;
    lease_ = 0;
    return false;
  }

  const std::string address_;
  const seconds lease_time_;
  const milliseconds interval_;
  std::int64_t lease_ = 0;  // used by the thread, and later by the destructor
  Thread lives_;
};

EtcdAddress folder_at(const std::string& url, const WorkerSecurity& security) {
  quiet_grpc();
  keep_grpc();
  if (!url.starts_with(kEtcdScheme))
    throw Error(ErrorCode::invalid_argument,
                "the workers' directory must be etcd://HOST:PORT,.../FOLDER, not " + url);
  EtcdAddress address = parse_etcd_address(url, url, EtcdName::folder);
  for (const std::string& member : address.members) {
    check_address(member);
    check_exposure(member, options_of(security), Server::etcd);
  }
  return address;
}

}  // namespace

std::unique_ptr<WorkerWatch> watch_workers(
    const std::string& url, const WorkerSecurity& security,
    std::function<void(const std::vector<std::string>&)> changed) {
  return std::make_unique<FolderWatch>(folder_at(url, security), security, std::move(changed));
}

std::unique_ptr<WorkerWatch> announce_worker(const std::string& url, const WorkerSecurity& security,
                                             milliseconds timeout, const std::string& address) {
  check_address(address);
  return std::make_unique<Announcement>(folder_at(url, security), security, timeout, address);
}

}  // namespace penstock::cluster
