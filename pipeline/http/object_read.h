// Reads parts of objects, from the cache on disk as far as it has them, and from servers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/http/client.h"

namespace penstock::http {

/// The parts to read of an object. Afterwards `gets` holds the requests that were sent for it. A
/// part was read unless it overlaps a failed one of `gets`.
struct ObjectRead {
  const PinnedObject* object = nullptr;
  std::vector<RangePart> parts;
  std::vector<RangeGet> gets{};
};

/// Carries out all reads at once, and waits for all of them. `fresh`: bypasses every cache, and
/// drops the object's blocks from the cache on disk. Throws nothing but std::bad_alloc.
void read_objects(HttpClient& client, std::span<ObjectRead> reads, bool fresh);

/// Returns the requests to a server that read `parts`, which must be in ascending order. Parts with
/// at most `gap` bytes between them are joined, and requests are cut at `most` bytes. In a request,
/// the bytes between parts are at most a quarter of the wanted bytes.
std::vector<RangeGet> gets_of(std::vector<RangePart> parts, std::uint64_t gap, std::size_t most);

}  // namespace penstock::http
