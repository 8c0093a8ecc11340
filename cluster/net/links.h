// A rank's connections to all others, independent of the transport.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <penstock/internal/thread_annotations.h>

#include "cluster/process_group.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// A memory region that links send from and receive into. Used by one thread. Between two ranks,
/// messages arrive in the order in which they were sent, if both ranks request them in the same
/// order.
class LinkBuffer {
 public:
  virtual ~LinkBuffer() = default;
  /// `send` and `receive` request a transfer of bytes [begin, end), or of nothing if the range is
  /// empty. `slot` tells messages apart.
  virtual void send(int rank, std::uint64_t slot, std::size_t begin, std::size_t end) = 0;
  virtual void receive(int rank, std::uint64_t slot, std::size_t begin, std::size_t end) = 0;
  /// Waits until one more requested message has arrived. Throws the error that ended the job, or
  /// Error{cancelled}.
  virtual void received_one() = 0;
  /// Waits for all requested messages.
  virtual void received() = 0;
  /// Waits until the bytes that were sent may be overwritten.
  virtual void sent() = 0;
};

/// The connections. Used by one thread, but any thread may call `fail` at any time.
class Links {
 public:
  Links(Rendezvous& rendezvous, const Cluster& cluster, const ProcessGroupOptions& options);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  virtual ~Links() = default;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Returns the rank that is this many places after this one, modulo the number of ranks. `places`
  /// may be negative.
  int neighbour(int places) const noexcept { return ((rank_ + places) % size_ + size_) % size_; }
  /// Returns the first of `count` consecutive numbers that tell messages apart. All ranks must ask
  /// for the same counts.
  std::uint64_t take_slots(std::uint64_t count) noexcept {
    slot_ += count;
    return slot_ - count;
  }
  /// Throws the error that ended the job.
  virtual std::unique_ptr<LinkBuffer> buffer(void* data, std::size_t bytes) = 0;
  /// Runs `act`, which sends and receives. Throws the error that ended the job. If a connection
  /// broke, it first waits for the rendezvous to name the lost rank.
  void guarded(const std::function<void()>& act);
  /// Ends waiting calls and all later ones with `error`; the first error counts.
  void fail(const Status& error) noexcept EXCLUDES(mutex_);

 protected:
  /// Call it once all connections exist. From then on the job's end ends waiting calls.
  void begin();
  /// Waits until the other ranks are done too, for a limited time, if nothing has ended the job.
  /// Otherwise a rank that is still in its last call would take a closed connection for a lost
  /// rank. Destructors call it first.
  void part() noexcept;
  /// Wakes waiting calls, since `ended` is no longer success. Any thread may call it.
  virtual void interrupt() noexcept = 0;
  Status ended() const EXCLUDES(mutex_);
  Rendezvous& rendezvous() const noexcept { return rendezvous_; }
  const std::string& name() const noexcept { return name_; }
  [[noreturn]] void throw_why(const std::string& what);

 private:
  void end(const Status& error) noexcept EXCLUDES(mutex_);

  Rendezvous& rendezvous_;
  const std::string name_;
  const std::chrono::milliseconds named_within_;
  const int rank_;
  const int size_;
  bool begun_ = false;
  std::uint64_t slot_ = 1;
  mutable Mutex mutex_;
  Status error_ GUARDED_BY(mutex_);
};

/// Opens links over Gloo, which does not encrypt, or over gRPC with TLS and the job's token. Both
/// throw as `open_process_group` does.
std::unique_ptr<Links> open_gloo_links(Rendezvous& rendezvous, const Cluster& cluster,
                                       const ProcessGroupOptions& options);
std::unique_ptr<Links> open_grpc_links(Rendezvous& rendezvous, const Cluster& cluster,
                                       const ProcessGroupOptions& options);

}  // namespace penstock::cluster
