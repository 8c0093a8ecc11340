// Both ends of a stream between two ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

namespace penstock::cluster {

using Bytes = grpc::ByteBuffer;

/// One end of a stream. One thread at a time calls all functions but `read`. gRPC calls back from
/// its own threads, after the call that it answers. The stream exists until `finish` or `give_up`
/// was called.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Requests admission, or grants it.
  virtual void open() = 0;
  virtual void read(Bytes* into) = 0;
  virtual void write(const Bytes* message) = 0;
  /// Ends the stream from this side.
  virtual void finish() = 0;
  /// Releases a stream that the other side has ended or never admitted. `over` then reports its
  /// status.
  virtual void give_up() = 0;
};
/// The owner of streams. gRPC's threads call these functions; they must not hold the owner's mutex.
class StreamOwner {
 public:
  virtual void connected(int peer) noexcept = 0;
  /// Reports that the buffer given to `read` holds a message.
  virtual void arrived(int peer) noexcept = 0;
  /// Reports that the message given to `write` is no longer needed.
  virtual void written(int peer) noexcept = 0;
  virtual void lost(int peer) noexcept = 0;
  /// Reports that the stream is over. The owner deletes it.
  virtual void over(int peer, Stream* stream, const grpc::Status& why) noexcept = 0;

 protected:
  ~StreamOwner() = default;
};

/// The callbacks that both kinds of streams have in common.
template <typename Reactor>
class Both : public Reactor, public Stream {
 public:
  Both(StreamOwner& owner, int peer) : owner_(owner), peer_(peer) {}
  void read(Bytes* into) override { this->StartRead(into); }
  void write(const Bytes* message) override { this->StartWrite(message); }
  void OnReadDone(bool ok) override { ok ? owner_.arrived(peer_) : owner_.lost(peer_); }
  void OnWriteDone(bool ok) override { ok ? owner_.written(peer_) : owner_.lost(peer_); }

 protected:
  StreamOwner& owner_;
  const int peer_;
};
class Dialed : public Both<grpc::ClientBidiReactor<Bytes, Bytes>> {
 public:
  using Both::Both;
  grpc::ClientContext context;
  void open() override {
    // Without a hold, the call would be over as soon as the other side has gone, even if a thread
    // is about to write.
    AddHold();
    StartCall();
  }
  void finish() override {
    context.TryCancel();
    give_up();
  }
  void give_up() override {
    if (!std::exchange(given_up_, true)) RemoveHold();
  }
  void OnReadInitialMetadataDone(bool ok) override {
    ok ? owner_.connected(peer_) : owner_.lost(peer_);
  }
  void OnDone(const grpc::Status& status) override { owner_.over(peer_, this, status); }

 private:
  bool given_up_ = false;
};
class Accepted final : public Both<grpc::ServerGenericBidiReactor> {
 public:
  Accepted(StreamOwner& owner, int peer, grpc::GenericCallbackServerContext& context)
      : Both(owner, peer), context_(context) {}
  void open() override { StartSendInitialMetadata(); }
  void finish() override {
    if (std::exchange(finished_, true)) return;  // gRPC's context may no longer exist
    context_.TryCancel();
    Finish(grpc::Status::OK);
  }
  void give_up() override { finish(); }
  void OnDone() override { owner_.over(peer_, this, {}); }

 private:
  grpc::GenericCallbackServerContext& context_;
  bool finished_ = false;
};
/// A stream of a stranger, refused at once.
class Refused final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refused(const char* why, grpc::StatusCode code = grpc::StatusCode::PERMISSION_DENIED) {
    Finish(grpc::Status(code, why));
  }
  void OnDone() override { delete this; }
};

/// Returns the number at the beginning of the message; nothing if it is too short.
inline std::optional<std::uint64_t> slot_of(Bytes& message) {
  std::uint64_t slot = 0;
  std::vector<grpc::Slice> slices;
  if (message.Length() < sizeof slot || !message.Dump(&slices).ok()) return std::nullopt;
  std::size_t have = 0;
  for (const grpc::Slice& slice : slices) {
    const std::size_t more = std::min(sizeof slot - have, slice.size());
    std::memcpy(reinterpret_cast<char*>(&slot) + have, slice.begin(), more);
    have += more;
  }
  return slot;
}

/// Copies the bytes that follow the number; false if their size differs.
inline bool copy_behind_slot(Bytes& message, char* to, std::size_t bytes) {
  std::vector<grpc::Slice> slices;
  if (message.Length() != sizeof(std::uint64_t) + bytes || !message.Dump(&slices).ok())
    return false;
  std::size_t skip = sizeof(std::uint64_t);
  for (const grpc::Slice& slice : slices) {
    const std::size_t skipped = std::min(skip, slice.size());
    skip -= skipped;
    std::memcpy(to, slice.begin() + skipped, slice.size() - skipped);
    to += slice.size() - skipped;
  }
  return true;
}

}  // namespace penstock::cluster
