// Modules: parts of Penstock that are opened only where they are needed.
#pragma once

#include <functional>

namespace penstock {

/// Returns the address of `symbol` in the shared object `file`, which stays open for ever. It looks
/// in the program's folder, in the library folders next to it, and where the linker looks. A module
/// that `accept` refuses, because it is of another version, is skipped. Throws Error{not_found}
/// with the obstacle. Thread-safe.
void* module_symbol(const char* file, const char* symbol, const std::function<bool(void*)>& accept);

}  // namespace penstock
