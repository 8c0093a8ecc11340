// Listeners of links between runs and workers, on which tests can wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <penstock/internal/worker_links.h>

namespace penstock::cluster::test {

inline std::string text_of(const WireBytes& message) {
  std::string text;
  for (const auto& piece : message.pieces)
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return text;
}

/// Returns the text in two pieces, so that the receiver has to join them.
inline WireBytes message_of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::span bytes(reinterpret_cast<const std::byte*>(owner->data()), owner->size());
  return {{bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)}, owner};
}

/// A listener that keeps its messages, and counts calls that may come only once.
class Heard : public LinkListener {
 public:
  void connected() noexcept override {
    const std::lock_guard lock(mutex_);
    ++connected_;
    changed_.notify_all();
  }
  void received(WireBytes message) noexcept override {
    std::string text = text_of(message);
    const std::lock_guard lock(mutex_);
    if (lost_ > 0) ++late_;
    messages_.push_back(std::move(text));
    changed_.notify_all();
  }
  void lost(const Status& why) noexcept override {
    const std::lock_guard lock(mutex_);
    ++lost_;
    why_ = why;
    when_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }

  bool waits_connected(std::chrono::milliseconds most = kMost) const {
    return waits(most, [this] { return connected_ > 0 || lost_ > 0; }) && connected() == 1;
  }
  bool waits_messages(std::size_t count, std::chrono::milliseconds most = kMost) const {
    return waits(most, [&] { return messages_.size() >= count; });
  }
  bool waits_lost(std::chrono::milliseconds most = kMost) const {
    return waits(most, [this] { return lost_ > 0; });
  }
  int connected_times() const {
    const std::lock_guard lock(mutex_);
    return connected_;
  }
  int lost_times() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  /// Returns the number of messages after the end.
  int late() const {
    const std::lock_guard lock(mutex_);
    return late_;
  }
  ErrorCode code() const {
    const std::lock_guard lock(mutex_);
    return why_.ok() ? ErrorCode::internal : why_.error().code();
  }
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_.ok() ? "" : why_.error().what();
  }
  std::chrono::steady_clock::time_point when_lost() const {
    const std::lock_guard lock(mutex_);
    return when_;
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  static constexpr std::chrono::milliseconds kMost{20'000};

  int connected() const { return connected_times(); }
  template <typename Until>
  bool waits(std::chrono::milliseconds most, Until until) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, until);
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int connected_ = 0, lost_ = 0, late_ = 0;
  Status why_;
  std::chrono::steady_clock::time_point when_;
  std::vector<std::string> messages_;
};

/// A listener that sends each message back unchanged.
class Echo : public LinkListener {
 public:
  explicit Echo(WorkerLink& link) : link_(link) { link.admit(); }
  void received(WireBytes message) noexcept override { link_.send(std::move(message)); }
  void lost(const Status& /*why*/) noexcept override {}

 private:
  WorkerLink& link_;
};

inline AcceptLink echoes() {
  return [](WorkerLink& link) { return std::make_shared<Echo>(link); };
}

}  // namespace penstock::cluster::test
