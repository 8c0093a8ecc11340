#include "towers/servers/served_position.h"

#include <penstock/error.h>
#include <penstock/state.h>

namespace penstock::towers {
namespace {

constexpr std::string_view kServedFormat = "penstock served job 1\n";

void put_pushes(StateWriter& writer, const Pushes& pushes) {
  writer.put(pushes.size());
  for (const std::uint64_t count : pushes) writer.put(count);
}

/// Reads a count of items that take at least a byte each.
std::size_t count_of(StateReader& reader) {
  const std::uint64_t count = reader.get();
  if (count > reader.left())
    throw Error(ErrorCode::data_loss, "a position of a job tells of more than it has");
  return static_cast<std::size_t>(count);
}

Pushes get_pushes(StateReader& reader) {
  Pushes pushes(count_of(reader));
  for (std::uint64_t& count : pushes) count = reader.get();
  return pushes;
}

}  // namespace

std::string ServedPosition::encode() const {
  StateWriter writer;
  writer.put(heads.size());
  for (const SnapshotHead& head : heads) {
    writer.put(head.step);
    put_pushes(writer, head.pushes);
  }
  writer.put(feeds.size());
  for (const KeptFeed& feed : feeds) {
    writer.put_bytes(feed.position);
    put_pushes(writer, feed.pushes);
  }
  return std::string(kServedFormat) + writer.bytes();
}

bool ServedPosition::is_one(std::string_view bytes) noexcept {
  return bytes.starts_with(kServedFormat);
}

ServedPosition ServedPosition::decode(std::string_view bytes) {
  if (!is_one(bytes))
    throw Error(ErrorCode::data_loss, "not the position of a job with parameter servers");
  StateReader reader(bytes.substr(kServedFormat.size()));
  ServedPosition position;
  for (std::size_t left = count_of(reader); left > 0; --left) {
    SnapshotHead& head = position.heads.emplace_back();
    head.step = reader.get();
    head.pushes = get_pushes(reader);
  }
  std::size_t replicas = 0;
  for (std::size_t left = count_of(reader); left > 0; --left) {
    KeptFeed& feed = position.feeds.emplace_back();
    feed.position = std::string(reader.get_bytes());
    feed.pushes = get_pushes(reader);
    replicas += feed.pushes.size();
  }
  if (!reader.at_end())
    throw Error(ErrorCode::data_loss, "bytes follow the end of a job's position");
  if (position.heads.empty() || position.feeds.empty())
    throw Error(ErrorCode::data_loss, "the position of a job lacks servers or processes");
  for (const SnapshotHead& head : position.heads)
    if (head.pushes.size() != replicas)
      throw Error(ErrorCode::data_loss, "the position of a job contradicts itself");
  return position;
}

}  // namespace penstock::towers
