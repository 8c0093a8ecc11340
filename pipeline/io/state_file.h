// The file that a state is kept in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/state_file.h>

#include "pipeline/io/durable.h"

namespace penstock {

// A state file is the 16 bytes "penstock state 1", the length of the state (u64), the CRC32C of
// that length and the state (u32), both little endian, and the state.

inline constexpr std::uint64_t kMaxStateBytes = 256ULL << 20;

/// What `save_state` does, with faults.
void write_state(const std::string& path, std::string_view state, WriteFault fault);
/// Throws what `save_state` would if it can't write there: before there is a state.
void check_state_path(const std::string& path);
/// The state in the bytes of a state file. Throws Error{data_loss} if they are not whole.
std::string parse_state_file(std::string_view bytes);

}  // namespace penstock
