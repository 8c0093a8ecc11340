// Modules: parts of Penstock that are opened only where they are needed.
#pragma once

#include <functional>

namespace penstock {

/// Returns the address of `symbol` in the shared object `file`, which stays open for ever. Looks in
/// the program's folder and the library folders next to it. After these come the folder of the
/// shared library that holds this code, the linker's folders, and the one that Penstock was
/// configured for. A module that `accept` refuses is skipped: it is of another version. Throws
/// Error{not_found} with the obstacle and the folders. Thread-safe.
void* module_symbol(const char* file, const char* symbol, const std::function<bool(void*)>& accept);

}  // namespace penstock
