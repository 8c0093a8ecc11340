// Options of host devices, as text.
#pragma once

#include <string_view>

#include "staging/host/host_device.h"

namespace penstock {

/// True for text of the form "host:0:…", whatever the options are.
bool is_host_with_options(std::string_view text) noexcept;
/// Parses text such as "host:0:copies:bytes_per_s=1e9:hang_copy=7": the fields of HostOptions and
/// HostFaults that can be written as text. Any option that concerns copies gives the device memory
/// of its own. Throws Error{invalid_argument} that lists the options.
HostOptions parse_host_options(std::string_view text);

}  // namespace penstock
