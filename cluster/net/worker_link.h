// A link between a run and an input worker: a gRPC stream, which either side may have opened.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/internal/worker_links.h>

#include "cluster/net/streams.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

inline constexpr const char* kWorkerMethod = "/penstock.Workers/Stream";
/// A key in the first metadata that a worker sends; other servers do not send it.
inline constexpr const char* kWorkerName = "penstock-worker";
/// A message's bytes, and the bytes that gRPC puts before them.
inline constexpr int kMostBytesReceived = static_cast<int>(WorkerLink::kMostBytesOfMessage) + 64;

/// A link over a gRPC stream. No mutex is held when the link calls gRPC or releases a message's
/// owner, because that owner may do anything. So a thread of the link carries out what `send` and
/// `close` request, and also calls `lost`. gRPC's threads receive messages. There are few of them,
/// so they may copy but must not wait.
class StreamLink final : public WorkerLink, public StreamOwner {
 public:
  /// `other` names the other side in errors.
  explicit StreamLink(std::string other) : other_(std::move(other)) {}
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;
  ~StreamLink() override;

  /// Begins with a stream whose owner is this link. `let_in_within` limits the wait for admission;
  /// it is 0 on the side that admits others. The link releases `listener` when `lost` has returned.
  /// Throws Error{resource_exhausted} if it cannot start a thread; the link has not begun then.
  void begin(std::unique_ptr<Stream> stream, std::shared_ptr<LinkListener> listener,
             std::chrono::milliseconds let_in_within);
  /// True once `lost` has returned.
  bool ended() const EXCLUDES(mutex_);

  void send(WireBytes message) EXCLUDES(mutex_) override;
  void admit() noexcept override {
    if (admitted_) admitted_();
  }
  /// Sets what `admit` calls. REQUIRES: the link has not begun.
  void on_admit(std::function<void()> call) { admitted_ = std::move(call); }
  void close() noexcept EXCLUDES(mutex_) override { end("it was closed from this side"); }
  /// Ends the link. `why` becomes the reason that `lost` reports, unless there was an earlier one.
  void end(const char* why) noexcept EXCLUDES(mutex_);

 private:
  void connected(int peer) noexcept EXCLUDES(mutex_) override;
  void arrived(int peer) noexcept EXCLUDES(mutex_) override;
  void written(int peer) noexcept EXCLUDES(mutex_) override;
  void lost(int peer) noexcept EXCLUDES(mutex_) override;
  void over(int peer, Stream* stream, const grpc::Status& why) noexcept EXCLUDES(mutex_) override;

  void run() EXCLUDES(mutex_);
  bool may_write() const REQUIRES(mutex_) {
    return let_in_ && !writing_ && !closing_ && !broken_ && !to_send_.empty();
  }
  void write(WireBytes message) EXCLUDES(mutex_);
  Status why_lost() const noexcept REQUIRES(mutex_);

  const std::string other_;
  // Constant once the link has begun.
  std::unique_ptr<Stream> stream_;
  // Released by the link's thread, at the end.
  std::shared_ptr<LinkListener> listener_;
  std::function<void()> admitted_;
  bool dialed_ = false;
  std::chrono::steady_clock::time_point let_in_until_;
  // Used by the thread that reads.
  Bytes arriving_;
  // Used by the link's thread, and by gRPC while `writing_`.
  Bytes leaving_;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<WireBytes> to_send_ GUARDED_BY(mutex_);
  bool let_in_ GUARDED_BY(mutex_) = false;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;  // from this side
  bool broken_ GUARDED_BY(mutex_) = false;   // by the other side
  bool over_ GUARDED_BY(mutex_) = false;     // gRPC makes no more calls
  bool ended_ GUARDED_BY(mutex_) = false;
  const char* why_ GUARDED_BY(mutex_) = nullptr;  // the reason for `closing_`
  grpc::Status grpc_says_ GUARDED_BY(mutex_);
  Thread thread_;
};

/// Converts a worker's security settings to those of a rendezvous, for functions that take these.
RendezvousOptions options_of(const WorkerSecurity& security);
/// Throws Error{invalid_argument} unless the address is "host:port".
void check_address(const std::string& address);

}  // namespace penstock::cluster
