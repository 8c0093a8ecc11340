#include "tests/remote/loop_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace penstock::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Faults {
  std::atomic<bool> frozen{false};
  std::atomic<bool> corrupt{false};
};

struct Copy {
  std::vector<std::byte> bytes;
};

/// Both sides of a link: 0 has connected, 1 has accepted.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  Pipe(std::shared_ptr<Faults> faults, std::chrono::milliseconds timeout)
      : faults_(std::move(faults)), timeout_(timeout) {}
  ~Pipe() { end(); }

  void start(LinkListener& first, std::shared_ptr<LinkListener> second) {
    second_ = std::move(second);
    accepted_ = second_ != nullptr;
    if (accepted_) threads_[1] = std::jthread([this] { deliver(1, *second_); });
    threads_[0] = std::jthread([this, &first] { deliver(0, first); });
    if (!accepted_) close();
  }
  void send(int from, const WireBytes& message) {
    auto copy = std::make_shared<Copy>();
    for (const auto& piece : message.pieces)
      copy->bytes.insert(copy->bytes.end(), piece.begin(), piece.end());
    if (from == 1 && faults_->corrupt && copy->bytes.size() > 40)
      copy->bytes[copy->bytes.size() - 7] ^= std::byte{1};
    WireBytes sent;
    // In two pieces, which may lie anywhere.
    const std::span<const std::byte> all(copy->bytes);
    const std::size_t half = all.size() / 3;
    sent.pieces = {all.first(half), all.subspan(half)};
    sent.owner = copy;
    const std::lock_guard lock(mutex_);
    if (over_) return;
    queues_[1 - from].push_back(std::move(sent));
    changed_.notify_all();
  }
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  /// Waits until listeners were told.
  void end() {
    close();
    const std::lock_guard lock(joining_);  // both sides may end it
    for (std::jthread& thread : threads_)
      if (thread.joinable() && thread.get_id() != std::this_thread::get_id()) thread.join();
  }

 private:
  void deliver(int side, LinkListener& listener) {
    if (side == 0 && accepted_) listener.connected();
    Clock::time_point works = Clock::now();
    for (;;) {
      WireBytes message;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::milliseconds(2),
                          [&] { return over_ || (!faults_->frozen && !queues_[side].empty()); });
        if (!faults_->frozen) works = Clock::now();
        if (Clock::now() - works > timeout_) over_ = true;
        if (over_) break;
        if (faults_->frozen || queues_[side].empty()) continue;
        message = std::move(queues_[side].front());
        queues_[side].pop_front();
      }
      listener.received(std::move(message));
    }
    {
      const std::lock_guard lock(mutex_);
      queues_[side].clear();
    }
    listener.lost(Status(ErrorCode::unavailable, "the loop was cut"));
    if (side == 1) second_.reset();
  }

  const std::shared_ptr<Faults> faults_;
  const std::chrono::milliseconds timeout_;
  std::mutex joining_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<WireBytes>, 2> queues_;
  bool over_ = false;
  bool accepted_ = false;
  std::shared_ptr<LinkListener> second_;  // until its side is over
  std::array<std::jthread, 2> threads_;
};

class LoopLink final : public WorkerLink {
 public:
  LoopLink(std::shared_ptr<Pipe> pipe, int side) : pipe_(std::move(pipe)), side_(side) {}
  ~LoopLink() override {
    if (side_ == 0) pipe_->end();
  }
  void send(WireBytes message) override { pipe_->send(side_, message); }
  void close() noexcept override { pipe_->close(); }

 private:
  std::shared_ptr<Pipe> pipe_;
  int side_;
};

struct Accepted {
  std::shared_ptr<Pipe> pipe;
  std::unique_ptr<LoopLink> link;
};

struct Port {
  AcceptLink accept;
  std::vector<Accepted> accepted;
};

class Registry {
 public:
  std::mutex mutex;
  std::map<std::string, Port*> ports;
  std::map<std::string, std::shared_ptr<Faults>> faults;
  int next = 1;

  std::shared_ptr<Faults> faults_of(const std::string& address) {
    const std::lock_guard lock(mutex);
    auto& found = faults[address];
    if (!found) found = std::make_shared<Faults>();
    return found;
  }
};

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

class LoopPort final : public WorkerPort {
 public:
  LoopPort(std::string address, AcceptLink accept) : address_(std::move(address)) {
    port_.accept = std::move(accept);
    const std::lock_guard lock(registry().mutex);
    if (address_ == "127.0.0.1:0") address_ = "loop:" + std::to_string(registry().next++);
    if (registry().ports.contains(address_))
      throw Error(ErrorCode::unavailable, "can't listen at " + address_);
    registry().ports[address_] = &port_;
  }
  ~LoopPort() override {
    std::vector<Accepted> accepted;
    {
      const std::lock_guard lock(registry().mutex);
      registry().ports.erase(address_);
      accepted.swap(port_.accepted);
    }
    for (Accepted& one : accepted) one.pipe->end();
  }
  std::string address() const override { return address_; }
  void set_serving(bool) override {}
  std::size_t refused() const noexcept override { return 0; }

 private:
  std::string address_;
  Port port_;
};

class LostAtOnce final : public WorkerLink {
 public:
  explicit LostAtOnce(LinkListener& listener)
      : thread_([&listener] {
          listener.lost(Status(ErrorCode::unavailable, "nobody listens there"));
        }) {}
  void send(WireBytes) override {}
  void close() noexcept override {}

 private:
  std::jthread thread_;
};

std::unique_ptr<WorkerLink> connect(const std::string& address, const WorkerSecurity&,
                                    std::chrono::milliseconds timeout, LinkListener& listener) {
  const std::shared_ptr<Faults> faults = registry().faults_of(address);
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().ports.find(address);
  if (found == registry().ports.end()) return std::make_unique<LostAtOnce>(listener);
  Port& port = *found->second;
  auto pipe = std::make_shared<Pipe>(faults, timeout);
  Accepted& one = port.accepted.emplace_back();
  one.pipe = pipe;
  one.link = std::make_unique<LoopLink>(pipe, 1);
  std::shared_ptr<LinkListener> second = port.accept(*one.link);
  pipe->start(listener, std::move(second));
  return std::make_unique<LoopLink>(pipe, 0);
}

std::unique_ptr<WorkerPort> listen(const std::string& address, const WorkerSecurity&,
                                   AcceptLink accept) {
  return std::make_unique<LoopPort>(address, std::move(accept));
}

}  // namespace

const WorkerTransport& loop_transport() {
  static const WorkerTransport transport{WorkerTransport::kVersion, &connect, &listen, nullptr,
                                         nullptr};
  return transport;
}

void set_loop(const std::string& address, Loop state) {
  registry().faults_of(address)->frozen = state == Loop::frozen;
}

void cut_loop(const std::string& address) {
  std::vector<std::shared_ptr<Pipe>> pipes;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().ports.find(address);
    if (found == registry().ports.end()) return;
    for (Accepted& one : found->second->accepted) pipes.push_back(one.pipe);
  }
  for (const auto& pipe : pipes) pipe->close();
}

void corrupt_loop(const std::string& address, bool corrupt) {
  registry().faults_of(address)->corrupt = corrupt;
}

}  // namespace penstock::test
