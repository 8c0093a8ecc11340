// A loop over several threads, for what is done once when a source is made.
#pragma once

#include <cstddef>
#include <functional>

namespace penstock {

/// Calls `work` for 0 … count - 1 from several threads, this one among them, and returns when all
/// are done. Then throws what the lowest number threw. Fewer threads if the system gives no more.
/// `threads` 0: twice the processors, at most 16, because such work mostly waits.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0);

}  // namespace penstock
