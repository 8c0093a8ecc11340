#include "tools/penstock/commands/limits_text.h"

#include <penstock/limits.h>

#include "pipelines/numbers.h"
#include "report/table.h"

namespace penstock::tool {

std::string limits_text() {
  const Limits limits;
  const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
  Table table({{"limit"}, {"default", true}, {"of what"}});
  table.add({"max_record_bytes", bytes(limits.max_record_bytes), "one record or archive member"});
  table.add({"max_pixels", grouped(limits.max_pixels), "width x height of an image"});
  table.add({"max_scans", std::to_string(limits.max_scans), "scans of a progressive JPEG"});
  table.add(
      {"max_codec_bytes", bytes(limits.max_codec_bytes), "working memory of an image decoder"});
  table.add({"max_inflate_ratio", grouped(limits.max_inflate_ratio),
             "output per input byte of a compressed shard"});
  table.add({"max_name_bytes", bytes(limits.max_name_bytes), "a member's name"});
  table.add({"max_nesting", std::to_string(limits.max_nesting), "messages within messages"});
  table.add({"max_members", grouped(limits.max_members), "records of one shard"});
  table.add({"folder_ways", std::to_string(kMostWays), "paths by which links lead to one folder"});
  table.add({"stages", grouped(kMostStages), "stages of a chain, from a source to the end"});
  table.add({"places", grouped(kMostPlaces), "stages that a run opens, counting each use"});
  std::string text;
  for (const std::string& line : table.lines(100, false)) text += line + "\n";
  return text;
}

}  // namespace penstock::tool
