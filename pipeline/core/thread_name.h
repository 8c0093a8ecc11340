// Names of threads in top, in debuggers and in traces.
#pragma once

namespace penstock {

/// Gives the calling thread a name of at most 15 characters. An unnamed thread has the name of the
/// thread that started it, which may be a library's.
void name_this_thread(const char* name) noexcept;

}  // namespace penstock
