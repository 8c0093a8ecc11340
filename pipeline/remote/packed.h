// Compression of the values in answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <penstock/internal/worker_links.h>

namespace penstock::remote {

/// True if this build can compress at all.
bool has_lz4() noexcept;

/// Values are compressed in separate blocks of this many bytes; the last may be shorter. A block
/// that would not become smaller is sent as it is, which its size tells.
inline constexpr std::size_t kPackedBlock = std::size_t{256} << 10;

/// Returns the most bytes that packing may write.
std::size_t most_packed(std::size_t bytes) noexcept;

struct Packed {
  std::vector<std::uint64_t> sizes;  ///< of the blocks, as they are sent
  std::vector<std::byte> bytes;
};
/// Compresses values. Returns nothing if that would not save an eighth, or if this build can't.
/// Throws std::bad_alloc.
std::optional<Packed> pack(const std::vector<std::span<const std::byte>>& values);

/// Decompresses `bytes` of values from blocks of these sizes, which make up all of `packed`. Throws
/// Error{data_loss} for anything else, before it allocates memory for impossible sizes, and
/// std::bad_alloc.
std::vector<std::byte> unpack(std::span<const std::byte> packed,
                              const std::vector<std::uint64_t>& sizes, std::uint64_t bytes);

}  // namespace penstock::remote
