// Large values that follow a small message without being copied. The stream's first message begins
// with the head's size in 4 bytes, little-endian, and the head. All further bytes are the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

namespace penstock::cluster {

/// Bytes of values in one message. Between two messages both sides wait for each other.
inline constexpr std::size_t kBytesOfPart = 4 << 20;
inline constexpr std::size_t kMostBytesOfHead = 16 << 20;
inline constexpr int kMostBytesOfPart = static_cast<int>(kMostBytesOfHead + kBytesOfPart) + 4;

/// Returns a slice that shares these bytes instead of copying them. gRPC releases `owner` once it
/// no longer reads them.
grpc::Slice lent_slice(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// A head and values to send, split into messages. Values are not copied. Used by one thread.
class Outgoing {
 public:
  /// Begins with `head`. gRPC holds `memory` for as long as it may read values that were added.
  Outgoing(const google::protobuf::MessageLite& head, std::shared_ptr<const void> memory);
  void add(const void* data, std::size_t bytes);
  /// False once everything was sent, including the head.
  bool more() const noexcept { return !head_sent_ || !parts_.empty(); }
  grpc::ByteBuffer next();

 private:
  grpc::Slice head_;
  bool head_sent_ = false;
  const std::shared_ptr<const void> memory_;
  std::deque<std::span<const char>> parts_;
};

/// The receiving side, which accepts arbitrary input. It writes only to places where bytes are
/// expected. Used by one thread.
class Incoming {
 public:
  /// Reads the first message. False if it does not begin with a head.
  bool begin(grpc::ByteBuffer& first, google::protobuf::MessageLite& head);
  /// Directs the next bytes to `to`; null discards them.
  void expect(void* to, std::size_t bytes);
  /// Puts the bytes that followed the head in the first message. Call it once all places are
  /// expected. Returns what `put` returns.
  bool put_rest();
  /// Puts the message's bytes into the expected places. False if it has more bytes than are
  /// expected, or none.
  bool put(grpc::ByteBuffer& message);
  bool complete() const noexcept { return places_.empty(); }

 private:
  struct Place {
    char* to;
    std::size_t bytes;
  };
  bool put(std::span<const char> bytes) noexcept;

  std::vector<grpc::Slice> slices_;  // the first message
  std::size_t skip_ = 0;             // bytes of the first message that were read
  std::deque<Place> places_;
};

}  // namespace penstock::cluster
