// Signals that the system sends because of a file.
#pragma once

namespace penstock::tool {

/// Handles SIGXFSZ and SIGBUS. Call it once, before anything is written. A write beyond the limit
/// on file sizes (ulimit -f) then fails with EFBIG, like a write on a full disk, instead of ending
/// the process. If a mapped file can no longer be read, the process still ends, but with a sentence
/// that names the file and with exit code 1.
void handle_file_signals();

}  // namespace penstock::tool
