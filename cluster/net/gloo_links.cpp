// Connections by Gloo, over plain TCP.
#include <algorithm>
#include <chrono>
#include <vector>

#include <net/if.h>
#include <signal.h>
#include <sys/resource.h>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <penstock/internal/thread_annotations.h>

#include "cluster/net/links.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;

/// A store for Gloo's addresses, on the rendezvous.
class Store final : public gloo::rendezvous::Store {
 public:
  Store(Rendezvous& rendezvous, std::string prefix, milliseconds timeout)
      : rendezvous_(rendezvous), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    rendezvous_.put(prefix_ + key, {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = rendezvous_.get(prefix_ + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) rendezvous_.get(prefix_ + key, timeout_);
  }
  // Ignores Gloo's timeout. Other ranks may come late, and the rendezvous detects those that never
  // do.
  void wait(const std::vector<std::string>& keys, const milliseconds& /*timeout*/) override {
    wait(keys);
  }

 private:
  Rendezvous& rendezvous_;
  const std::string prefix_;
  const milliseconds timeout_;
};

/// A mesh with a short timeout for connecting, and a longer one afterwards.
class Mesh final : public gloo::rendezvous::Context {
 public:
  using Context::Context;
  void be_patient(milliseconds timeout) {
    setTimeout(timeout);
    transportContext_->setTimeout(timeout);
  }
};

void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    static_cast<void>(signal(SIGPIPE, SIG_IGN));
}

/// Raises the limit of descriptors: each connection needs two, and systems often set 1,024 although
/// they would allow more.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // connecting reports a lack of descriptors
}

class GlooLinks final : public Links {
 public:
  GlooLinks(Rendezvous& rendezvous, const Cluster& cluster, const ProcessGroupOptions& options)
      : Links(rendezvous, cluster, options) {
    if (!options.interface.empty() && !options.insecure)
      throw Error(ErrorCode::invalid_argument,
                  "the exchange would use " + options.interface +
                      " without encryption: add --insecure-exchange if that network is private");
    if (!options.interface.empty() && ::if_nametoindex(options.interface.c_str()) == 0)
      throw Error(ErrorCode::not_found, "there is no network interface " + options.interface);
    if (size() == 1) return;
    ignore_broken_pipes();
    if (size() > 100) allow_descriptors();
    try {
      gloo::transport::tcp::attr attributes("127.0.0.1");
      if (!options.interface.empty()) {
        attributes.hostname.clear();
        attributes.iface = options.interface;
      }
      auto device = gloo::transport::tcp::CreateDevice(attributes);
      auto context = std::make_shared<Mesh>(rank(), size());
      // A listening rank accepts at once, and waiting for a rank that is gone or cut off is
      // useless. Gloo waits five times its timeout.
      constexpr milliseconds kConnectedWithin{15'000};
      context->setTimeout(std::min(options.timeout, kConnectedWithin) / 5);
      Store store(rendezvous, name(), options.timeout);
      context->connectFullMesh(store, device);
      context->be_patient(options.timeout);
      context_ = std::move(context);
      begin();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw_why(error.what());
    }
  }
  ~GlooLinks() override { part(); }

  std::unique_ptr<LinkBuffer> buffer(void* data, std::size_t bytes) override {
    return std::make_unique<Buffer>(*this, data, bytes);
  }

 private:
  class Buffer final : public LinkBuffer {
   public:
    Buffer(GlooLinks& links, void* data, std::size_t bytes)
        : links_(links), buffer_(links.context_->createUnboundBuffer(data, bytes)) {
      const MutexLock lock(links_.waiting_mutex_);
      links_.waiting_.push_back(buffer_.get());
      // The thread that ends the job either sees this buffer, or set the error before this check.
      if (const Status why = links_.ended(); !why.ok()) {
        links_.waiting_.pop_back();
        throw Error(why.error());
      }
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() override {
      const MutexLock lock(links_.waiting_mutex_);
      std::erase(links_.waiting_, buffer_.get());
    }

    void send(int rank, std::uint64_t slot, std::size_t begin, std::size_t end) override {
      if (end == begin) return;
      buffer_->send(rank, slot, begin, end - begin);
      ++sends_;
    }
    void receive(int rank, std::uint64_t slot, std::size_t begin, std::size_t end) override {
      if (end == begin) return;
      buffer_->recv(rank, slot, begin, end - begin);
      ++receives_;
    }
    void received_one() override {
      if (!buffer_->waitRecv()) throw Error(ErrorCode::cancelled, "the exchange was ended");
      --receives_;
    }
    void received() override {
      while (receives_ > 0) received_one();
    }
    void sent() override {
      for (; sends_ > 0; --sends_)
        if (!buffer_->waitSend()) throw Error(ErrorCode::cancelled, "the exchange was ended");
    }

   private:
    GlooLinks& links_;
    const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    int sends_ = 0;
    int receives_ = 0;
  };

  void interrupt() noexcept EXCLUDES(waiting_mutex_) override {
    const MutexLock lock(waiting_mutex_);
    for (gloo::transport::UnboundBuffer* buffer : waiting_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

  std::shared_ptr<gloo::Context> context_;  // null: this rank is alone
  Mutex waiting_mutex_;
  std::vector<gloo::transport::UnboundBuffer*> waiting_ GUARDED_BY(waiting_mutex_);
};

}  // namespace

std::unique_ptr<Links> open_gloo_links(Rendezvous& rendezvous, const Cluster& cluster,
                                       const ProcessGroupOptions& options) {
  return std::make_unique<GlooLinks>(rendezvous, cluster, options);
}

}  // namespace penstock::cluster
