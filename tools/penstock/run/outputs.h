// The files that the program writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/internal/posix.h>

namespace penstock::tool {

/// A file that a flag names; an empty path means none.
struct Output {
  std::string flag;
  std::string path;
};

/// Throws UsageError if two outputs are the same file, by their paths or through links, whether it
/// exists yet or not. Devices may be named twice.
void check_distinct(const std::vector<Output>& outputs);
/// Checks before a run that a file can be opened; throws the errors of write_output if not. Leaves
/// an existing file unchanged. Accepts an empty path, "-", and files of folders that the run
/// creates.
void check_output(const std::string& path, const std::vector<std::string>& folders_made = {});
/// Writes `text` to a file, a device or a pipe, or to stdout for "-". After a failure, a file is as
/// it was before; it is never incomplete. Follows links, also to files that don't exist yet. Throws
/// Error{unavailable | resource_exhausted | not_found} with the system's reason.
void write_output(const std::string& path, std::string_view text);
/// Opens an output that grows while the program runs: a file, a device or a pipe. Creates a missing
/// file, and leaves an existing one unchanged. A pipe must get a reader within 5 s. Throws the
/// errors of write_output.
UniqueFd open_in_place(const std::string& path);

}  // namespace penstock::tool
