#include "pipeline/jpeg/records/table_sample.h"

#include <algorithm>
#include <cstdlib>

#include <penstock/error.h>

#include "pipeline/jpeg/records/layout.h"

namespace penstock::jpeg {

namespace {

constexpr int kDcBits = 11;  // bits of a baseline file's largest differences
constexpr int kAcBits = 10;
constexpr int kLargestDc = 1 << (kDcBits - 1);  // so that no difference is larger
constexpr int kLargestAc = (1 << kAcBits) - 1;

constexpr std::size_t kImageBlocks = 2048;       // of one image, in each table
constexpr std::size_t kMostBlocks = 256U << 10;  // of all images, in each table

/// Adds blocks, in natural order, that contain every symbol of a baseline file once.
void add_every_symbol(std::vector<std::int16_t>& blocks) {
  for (int bits = 0; bits <= kDcBits; ++bits) {
    blocks.resize(blocks.size() + kBlockSize);
    (blocks.end() - kBlockSize)[0] = static_cast<std::int16_t>(bits == 0 ? 0 : 1 << (bits - 1));
  }
  for (std::size_t run = 0; run < 16; ++run) {
    for (int bits = 1; bits <= kAcBits; ++bits) {
      blocks.resize(blocks.size() + kBlockSize);
      auto* const block = &*(blocks.end() - kBlockSize);
      block[kNaturalOrder[run + 1]] = static_cast<std::int16_t>(1 << (bits - 1));
      block[kNaturalOrder[kBlockSize - 1]] = 1;  // behind three runs of 16
    }
  }
}

}  // namespace

bool encodable(const CoefficientImage& image) noexcept {
  for (int c = 0; c < image.header.component_count; ++c) {
    const std::vector<std::int16_t>& blocks = image.blocks[static_cast<std::size_t>(c)];
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const int value = blocks[i];
      const bool is_dc = i % kBlockSize == 0;
      if (is_dc ? value < -kLargestDc || value >= kLargestDc : std::abs(value) > kLargestAc)
        return false;
    }
  }
  return true;
}

// Samples whole intervals, evenly spread over the image.
void TableSample::add(const CoefficientImage& image) {
  if (!encodable(image)) return;
  const Header& header = image.header;
  const BlockGrid grid(header);
  const bool together = header.component_count > 1;  // MCUs of several blocks
  const int interval = restart_interval_of(header);
  for (int c = 0; c < header.component_count; ++c) {
    const auto place = static_cast<std::size_t>(c);
    const Component& component = header.components[place];
    const int across = grid.across[place];
    const int horizontal = together ? component.horizontal : 1;
    const int vertical = together ? component.vertical : 1;
    const int mcus = (across + horizontal - 1) / horizontal;
    const int rows = (grid.down[place] + vertical - 1) / vertical;
    const auto all = static_cast<std::size_t>(across) * static_cast<std::size_t>(grid.down[place]);
    const std::size_t every = (all + kImageBlocks - 1) / kImageBlocks;
    std::vector<std::int16_t>& out = blocks_[c == 0 || header.color == ColorModel::rgb ? 0 : 1];
    std::size_t number = 0;
    for (int y = 0; y < rows; ++y) {
      for (int first = 0; first < mcus; first += interval) {
        if (number++ % every != 0) continue;
        int before = 0;
        for (int mcu = first; mcu < std::min(first + interval, mcus); ++mcu) {
          for (int v = y * vertical; v < std::min((y + 1) * vertical, grid.down[place]); ++v) {
            for (int h = mcu * horizontal; h < std::min((mcu + 1) * horizontal, across); ++h) {
              const auto at = static_cast<std::ptrdiff_t>(kBlockSize) * (v * across + h);
              const auto block = image.blocks[place].begin() + at;
              out.insert(out.end(), block, block + kBlockSize);
              (out.end() - kBlockSize)[0] = static_cast<std::int16_t>(*block - before);
              before = *block;
            }
          }
        }
      }
    }
  }
}

void TableSample::add(const TableSample& other) {
  for (std::size_t table = 0; table < blocks_.size(); ++table) {
    const std::vector<std::int16_t>& more = other.blocks_[table];
    const std::size_t room = kMostBlocks * kBlockSize - blocks_[table].size();
    const auto count = static_cast<std::ptrdiff_t>(std::min(more.size(), room));
    blocks_[table].insert(blocks_[table].end(), more.begin(), more.begin() + count);
  }
}

// libjpeg computes the tables of a gray picture that consists of these blocks. Each block is an
// interval of its own, so that its DC is coded as it is.
SharedTables TableSample::tables() const {
  constexpr std::size_t kAcross = 64;
  SharedTables found;
  for (std::size_t table = 0; table < blocks_.size(); ++table) {
    CoefficientImage picture;
    std::vector<std::int16_t>& blocks = picture.blocks[0];
    blocks = blocks_[table];
    add_every_symbol(blocks);
    const std::size_t down = (blocks.size() / kBlockSize + kAcross - 1) / kAcross;
    blocks.resize(down * kAcross * kBlockSize);
    picture.header.width = static_cast<int>(kAcross) * kBlockSide;
    picture.header.height = static_cast<int>(down) * kBlockSide;
    picture.header.component_count = 1;
    picture.header.quantisation[0].values.fill(1);
    Header header;
    if (read_header(write_jpeg(picture, {.restart_interval = 1}), header) != Foreign::none)
      throw Error(ErrorCode::internal, "JPEG: no tables");
    found.dc[table] = header.dc[static_cast<std::size_t>(header.components[0].dc)];
    found.ac[table] = header.ac[static_cast<std::size_t>(header.components[0].ac)];
  }
  return found;
}

}  // namespace penstock::jpeg
