// Signals that the system sends because of a file.
#pragma once

namespace penstock::tool {

/// Call once, before anything is written. A write past the limit on the size of files (ulimit -f)
/// then fails like one on a full disk, with EFBIG, instead of ending the process by SIGXFSZ. A
/// mapped file that can no longer be read ends the process still, but with a sentence that names
/// it, and exit code 1 instead of a SIGBUS.
void handle_file_signals();

}  // namespace penstock::tool
