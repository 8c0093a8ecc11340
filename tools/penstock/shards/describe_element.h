// Descriptions of elements in one line, for people.
#pragma once

#include <string>
#include <string_view>

#include <penstock/element.h>

namespace penstock::tool {

/// Returns text such as "image: 85.2 KiB JPEG 375x500, label: 3, key: \"000003\"".
std::string describe_element(const Element& element);

/// Returns text such as "12 B \"text\"", "85.2 KiB JPEG 375x500" or "168 B".
std::string describe_bytes(std::string_view bytes);

/// Returns the size in the header of a JPEG or PNG, such as "375x500"; empty if it has none.
std::string image_size(std::string_view bytes);

}  // namespace penstock::tool
