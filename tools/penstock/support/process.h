// What this process has used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tool {

/// User and system time of all threads so far.
double cpu_seconds();
/// The most memory the process has had resident.
std::uint64_t peak_resident_bytes();
/// Processors that the process may run on.
int usable_processors();

/// Writes `text` to a file, or to stdout for "-". Throws Error{unavailable} with the system's
/// reason.
void write_output(const std::string& path, std::string_view text);
/// Throws what write_output would throw if the file can't be opened: before there is anything to
/// write. Leaves what is there as it is; an empty path, "-" and what is to be in a folder that the
/// run makes are good.
void check_output(const std::string& path, const std::vector<std::string>& folders_made = {});

}  // namespace penstock::tool
