// The format of the file that holds a state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/state_file.h>

namespace penstock {

// A state file holds the 16 bytes "penstock state 1", the length of the state (u64), the CRC32C of
// that length and the state (u32), and the state. Both numbers are little-endian.

inline constexpr std::uint64_t kMaxStateBytes = 256ULL << 20;

/// Returns the state in the bytes of a state file. Throws Error{data_loss} if they are not
/// complete.
std::string parse_state_file(std::string_view bytes);

}  // namespace penstock
