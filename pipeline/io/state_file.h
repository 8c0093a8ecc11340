// The bytes of the file that a state is kept in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/state_file.h>

namespace penstock {

// A state file is the 16 bytes "penstock state 1", the length of the state (u64), the CRC32C of
// that length and the state (u32), both little endian, and the state.

inline constexpr std::uint64_t kMaxStateBytes = 256ULL << 20;

/// The state in the bytes of a state file. Throws Error{data_loss} if they are not whole.
std::string parse_state_file(std::string_view bytes);

}  // namespace penstock
