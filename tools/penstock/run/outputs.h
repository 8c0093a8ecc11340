// Files that the program writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/posix.h>

namespace penstock::tool {

/// A file that a flag names; an empty path is none.
struct Output {
  std::string flag;
  std::string path;
};

/// Throws UsageError if two of them are one file, by their paths or through links, whether it is
/// there yet or not. Devices may be named twice.
void check_distinct(const std::vector<Output>& outputs);
/// Throws what write_output would throw if the file can't be opened: before there is anything to
/// write. Leaves what is there as it is; an empty path, "-" and what is to be in a folder that the
/// run makes are good.
void check_output(const std::string& path, const std::vector<std::string>& folders_made = {});
/// Writes `text` to a file, which is there in full or as it was before, to a device or a pipe, or
/// to stdout for "-". A link is followed, also one that leads to nothing yet. Throws
/// Error{unavailable | resource_exhausted | not_found} with the system's reason.
void write_output(const std::string& path, std::string_view text);
/// Opens an output that grows while the program runs: a file, which is made if it is not there and
/// otherwise left as it is, a device, or a pipe, to which a reader has to come within 5 s. Throws
/// as write_output does.
UniqueFd open_in_place(const std::string& path);

}  // namespace penstock::tool
