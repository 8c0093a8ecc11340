// An element in one line, for people.
#pragma once

#include <string>
#include <string_view>

#include <penstock/element.h>

namespace penstock::tool {

/// "image: 85.2 KiB JPEG 375x500, label: 3, key: \"000003\"".
std::string describe_element(const Element& element);

/// "12 B \"text\"", "85.2 KiB JPEG 375x500", "168 B".
std::string describe_bytes(std::string_view bytes);

/// "375x500" of a JPEG or PNG's header; empty if it has none.
std::string image_size(std::string_view bytes);

}  // namespace penstock::tool
