#include "tools/penstock/synth/faults.h"

#include <map>

#include <penstock/error.h>

#include "tools/penstock/synth/jpeg_encode.h"

namespace penstock::tool {
namespace {

constexpr int kStartOfFrame = 0xc0;
constexpr int kHuffmanTable = 0xc4;
constexpr int kQuantisationTable = 0xdb;
constexpr int kStartOfScan = 0xda;

int byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

std::string of(std::size_t size) {
  return " of " + std::to_string(size) + " bytes";
}

std::size_t require_segment(std::string_view jpeg, int marker) {
  const std::size_t at = find_segment(jpeg, marker);
  if (at == jpeg.npos) throw Error(ErrorCode::internal, "a JPEG lacks a segment");
  return at;
}

Damaged truncate(std::string jpeg, Rng& rng) {
  const std::size_t whole = jpeg.size();
  const std::size_t scan = find_segment(jpeg, kStartOfScan);
  // Nine of ten cuts are within the pixels, the others anywhere.
  const std::size_t least = scan != jpeg.npos && rng.coin(0.9) ? scan : 1;
  jpeg.resize(least + rng.below(whole - least));
  return {jpeg, "cut to " + std::to_string(jpeg.size()) + of(whole)};
}

Damaged tenth(std::string jpeg, Rng&) {
  const std::size_t whole = jpeg.size();
  jpeg.resize(whole / 10);
  return {jpeg, "cut to " + std::to_string(jpeg.size()) + of(whole)};
}

Damaged flip(std::string jpeg, Rng& rng) {
  const std::size_t at = rng.below(jpeg.size());
  const int bit = static_cast<int>(rng.below(8));
  jpeg[at] = static_cast<char>(byte_at(jpeg, at) ^ 1 << bit);
  return {jpeg, "bit " + std::to_string(bit) + " of byte " + std::to_string(at)};
}

Damaged header(std::string jpeg, Rng&) {
  constexpr std::string_view kText = "<!DOCTYPE html><title>404</title>";
  jpeg.replace(0, std::min(jpeg.size(), kText.size()), kText);
  return {jpeg, "begins as a web page"};
}

Damaged dimensions(std::string jpeg, Rng&) {
  constexpr int kSide = 65'500;
  const std::size_t frame = require_segment(jpeg, kStartOfFrame);
  for (const std::size_t at : {frame + 5, frame + 7}) {
    jpeg[at] = static_cast<char>(kSide >> 8);
    jpeg[at + 1] = static_cast<char>(kSide & 255);
  }
  return {jpeg, "claims 65500 x 65500 pixels"};
}

Damaged scans(std::string jpeg, Rng&) {
  constexpr int kMost = 1024;
  const std::size_t frame = require_segment(jpeg, kStartOfFrame);
  const int height = byte_at(jpeg, frame + 5) << 8 | byte_at(jpeg, frame + 6);
  const int width = byte_at(jpeg, frame + 7) << 8 | byte_at(jpeg, frame + 8);
  return {many_scans_jpeg(std::min(height, kMost), std::min(width, kMost)), "2,647 scans"};
}

Damaged tables(std::string jpeg, Rng& rng) {
  if (rng.coin(0.5)) {
    const std::size_t table = require_segment(jpeg, kHuffmanTable);
    jpeg[table + 5] = '\xff';
    return {jpeg, "a Huffman table has 255 codes of one bit"};
  }
  // As a segment for applications, a table is skipped. The Huffman tables stay: without them,
  // libjpeg-turbo takes the standard ones, as Motion JPEG requires.
  for (std::size_t at = require_segment(jpeg, kQuantisationTable); at != jpeg.npos;
       at = find_segment(jpeg, kQuantisationTable))
    jpeg[at + 1] = '\xef';
  return {jpeg, "the quantisation tables are missing"};
}

}  // namespace

const std::vector<std::string>& image_faults() {
  static const std::vector<std::string> kFaults{"truncate", "tenth",      "flip",  "header",
                                                "empty",    "dimensions", "scans", "tables"};
  return kFaults;
}

std::size_t find_segment(std::string_view jpeg, int marker) {
  for (std::size_t at = 2; at + 4 <= jpeg.size() && byte_at(jpeg, at) == 0xff;) {
    if (byte_at(jpeg, at + 1) == marker) return at;
    if (byte_at(jpeg, at + 1) == kStartOfScan) break;
    at += 2 + static_cast<std::size_t>(byte_at(jpeg, at + 2) << 8 | byte_at(jpeg, at + 3));
  }
  return std::string_view::npos;
}

Damaged damage_image(std::string_view fault, std::string jpeg, Rng& rng) {
  using Fault = Damaged (*)(std::string, Rng&);
  static const std::map<std::string_view, Fault> kFaults{
      {"truncate", truncate},     {"tenth", tenth}, {"flip", flip},    {"header", header},
      {"dimensions", dimensions}, {"scans", scans}, {"tables", tables}};
  if (fault == "empty") return {"", "empty"};
  const auto found = kFaults.find(fault);
  if (found == kFaults.end())
    throw Error(ErrorCode::invalid_argument, "no fault " + std::string(fault));
  return found->second(std::move(jpeg), rng);
}

}  // namespace penstock::tool
