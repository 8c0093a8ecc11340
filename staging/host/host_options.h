// Host devices as text.
#pragma once

#include <string_view>

#include "staging/host/host_device.h"

namespace penstock {

/// True for "host:0:…", whatever the options are.
bool is_host_with_options(std::string_view text) noexcept;
/// "host:0:copies:bytes_per_s=1e9:hang_copy=7": the fields of HostOptions and HostFaults that can
/// be written down. Whatever concerns copies makes the device have memory of its own. Throws
/// Error{invalid_argument} that lists what there is.
HostOptions parse_host_options(std::string_view text);

}  // namespace penstock
