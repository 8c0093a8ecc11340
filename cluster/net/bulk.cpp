#include "cluster/net/bulk.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace penstock::cluster {
namespace {

static_assert(std::endian::native == std::endian::little, "values are sent as they are");

using HeadSize = std::uint32_t;

using Memory = std::shared_ptr<const void>;

void let_go(void* memory) {
  delete static_cast<Memory*>(memory);
}

}  // namespace

grpc::Slice lent_slice(std::span<const std::byte> bytes, Memory owner) {
  // gRPC only reads these bytes.
  void* data = const_cast<std::byte*>(bytes.data());
  return {data, bytes.size(), &let_go, new Memory(std::move(owner))};
}

Outgoing::Outgoing(const google::protobuf::MessageLite& head, Memory memory)
    : memory_(std::move(memory)) {
  std::string bytes(sizeof(HeadSize), '\0');
  head.AppendToString(&bytes);
  const auto size = static_cast<HeadSize>(bytes.size() - sizeof(HeadSize));
  std::memcpy(bytes.data(), &size, sizeof size);
  head_ = grpc::Slice(bytes);
}

void Outgoing::add(const void* data, std::size_t bytes) {
  if (bytes > 0) parts_.emplace_back(static_cast<const char*>(data), bytes);
}

grpc::ByteBuffer Outgoing::next() {
  std::vector<grpc::Slice> slices;
  if (!head_sent_) slices.push_back(head_);
  head_sent_ = true;
  for (std::size_t room = kBytesOfPart; room > 0 && !parts_.empty();) {
    std::span<const char>& part = parts_.front();
    const std::size_t bytes = std::min(room, part.size());
    slices.push_back(lent_slice(std::as_bytes(part.first(bytes)), memory_));
    room -= bytes;
    part = part.subspan(bytes);
    if (part.empty()) parts_.pop_front();
  }
  return {slices.data(), slices.size()};
}

bool Incoming::begin(grpc::ByteBuffer& first, google::protobuf::MessageLite& head) {
  HeadSize size = 0;
  slices_.clear();
  if (first.Length() < sizeof size || !first.Dump(&slices_).ok()) return false;
  const auto copy = [this](void* to, std::size_t from, std::size_t bytes) {
    std::size_t at = 0;
    for (const grpc::Slice& slice : slices_) {
      const std::size_t begin = std::clamp(from, at, at + slice.size());
      const std::size_t end = std::clamp(from + bytes, at, at + slice.size());
      if (end > begin)
        std::memcpy(static_cast<char*>(to) + (begin - from), slice.begin() + (begin - at),
                    end - begin);
      at += slice.size();
    }
  };
  copy(&size, 0, sizeof size);
  if (size > kMostBytesOfHead || size > first.Length() - sizeof size) return false;
  std::string bytes(size, '\0');
  copy(bytes.data(), sizeof size, size);
  skip_ = sizeof size + size;
  return head.ParseFromString(bytes);
}

void Incoming::expect(void* to, std::size_t bytes) {
  if (bytes > 0) places_.push_back({static_cast<char*>(to), bytes});
}

bool Incoming::put_rest() {
  for (const grpc::Slice& slice : slices_) {
    const std::size_t skipped = std::min(skip_, slice.size());
    skip_ -= skipped;
    if (!put(
            std::span(reinterpret_cast<const char*>(slice.begin()), slice.size()).subspan(skipped)))
      return false;
  }
  slices_.clear();
  return true;
}

bool Incoming::put(grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (message.Length() == 0 || !message.Dump(&slices).ok()) return false;
  return std::ranges::all_of(slices, [this](const grpc::Slice& slice) {
    return put(std::span(reinterpret_cast<const char*>(slice.begin()), slice.size()));
  });
}

bool Incoming::put(std::span<const char> bytes) noexcept {
  while (!bytes.empty()) {
    if (places_.empty()) return false;
    Place& place = places_.front();
    const std::size_t now = std::min(place.bytes, bytes.size());
    if (place.to != nullptr) {
      std::memcpy(place.to, bytes.data(), now);
      place.to += now;
    }
    place.bytes -= now;
    bytes = bytes.subspan(now);
    if (place.bytes == 0) places_.pop_front();
  }
  return true;
}

}  // namespace penstock::cluster
