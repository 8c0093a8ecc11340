// Text files as a source, line by line.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {line: bytes}. A line ends with \n or \r\n, which are no part of it, or with the file; any other
/// \r is text. Throws Error{not_found} that lists what is missing.
SourcePtr make_text_lines_source(const Paths& paths, const FileOptions& options);

}  // namespace penstock
