// The module that connects runs and workers.
#pragma once

#include <penstock/internal/worker_links.h>

namespace penstock::remote {

/// Opens the module on the first call. Throws Error{not_found} that says why it can't be opened.
const WorkerTransport& worker_transport();
/// Replaces the transport from now on, for tests. REQUIRES: `transport` outlives all its uses.
void use_worker_transport(const WorkerTransport& transport) noexcept;

/// Returns the linker's build id, which differs between programs that were linked separately. Empty
/// if there is none.
std::string build_id();

}  // namespace penstock::remote
