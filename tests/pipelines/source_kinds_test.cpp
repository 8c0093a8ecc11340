// The table of sources.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "pipelines/kinds.h"

namespace penstock::tool {
namespace {

// The program opens a file by the kind that is made for its format. `.formats` that were copied
// from another kind would change which one that is.
TEST(SourceKinds, OneForEachFormat) {
  std::map<Format, std::string> made_for;
  for (const Kind& kind : source_kinds()) {
    if (kind.formats.empty()) continue;
    const auto [found, added] = made_for.emplace(kind.formats.front(), kind.name);
    EXPECT_TRUE(added) << kind.name << " and " << found->second << " list the same format first";
  }
}

TEST(SourceKinds, NoOtherForFilesThatNeedAParameter) {
  for (const Kind& kind : source_kinds()) {
    const auto first = kind.parameters.begin();  // the paths
    const auto needed = std::find_if(first + 1, kind.parameters.end(),
                                     [](const Parameter& other) { return other.required; });
    if (needed == kind.parameters.end()) continue;
    for (const Kind& other : source_kinds()) {
      for (const Format format : kind.formats) {
        EXPECT_TRUE(&other == &kind || !other.reads(format))
            << kind.name << " needs " << needed->name << ", and " << other.name
            << " may read the same files without it";
      }
    }
  }
}

}  // namespace
}  // namespace penstock::tool
