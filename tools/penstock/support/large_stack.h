// Stacks that do not depend on `ulimit -s`.
#pragma once

#include <functional>

namespace penstock::tool {

/// Returns what `body` returns. If `ulimit -s` is below 8 MiB, `body` runs on a thread with a stack
/// of this size, and threads that it starts get such stacks. If there is no room for them, all run
/// with what the limit gives.
int run_on_large_stack(const std::function<int()>& body);

}  // namespace penstock::tool
