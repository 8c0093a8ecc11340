// The answer of ListObjectsV2. Source:
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::http {

struct ListedObject {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;
};

struct ListPage {
  std::vector<ListedObject> objects;
  bool truncated = false;
  std::string next_token;
};

/// Parses an answer. Understands only elements, text, and the five entities and numeric references
/// of XML. A document type is refused, so that nothing is expanded. Elements may be nested 16 deep,
/// and texts may have up to 8 KiB. Throws Error{data_loss} that says what is wrong.
ListPage parse_list_page(std::string_view xml);

}  // namespace penstock::http
