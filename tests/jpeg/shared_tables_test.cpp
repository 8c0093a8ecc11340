// Huffman tables that all indexed records of a file share.
#include "pipeline/jpeg/records/table_sample.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "pipeline/image/decoders.h"
#include "pipeline/jpeg/records/make.h"
#include "tests/support/decoding.h"
#include "tests/support/jpeg_coefficients.h"
#include "tests/support/simd.h"

namespace penstock::jpeg {
namespace {

using test::JpegOptions;
using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

struct Picture {
  int height;
  int width;
  int channels;
  JpegOptions options{};
};

std::vector<Picture> pictures() {
  std::vector<Picture> all = {
      {90, 130, 1, {}},
      {97, 203, 3, {.horizontal = 1, .vertical = 1}},
      {64, 300, 3, {.horizontal = 2, .vertical = 1}},
      {120, 77, 3, {.horizontal = 1, .vertical = 2}},
      {5, 3, 3, {}},
  };
  for (int i = 0; i < 20; ++i) {
    all.push_back(
        {80 + 7 * i, 60 + 11 * i, 3, {.quality = 60 + 2 * i, .horizontal = 2, .vertical = 2}});
  }
  return all;
}

Bytes file_of(const Picture& picture) {
  return make_jpeg(make_pixels(picture.height, picture.width, picture.channels), picture.options);
}

SharedTables tables_of(const std::vector<Bytes>& files) {
  TableSample all;
  for (const Bytes& file : files) {
    CoefficientImage image;
    EXPECT_EQ(read_coefficients(file, {}, image), Foreign::none);
    TableSample one;
    one.add(image);
    all.add(one);
  }
  return all.tables();
}

std::set<int> symbols_of(const HuffmanSpec& spec) {
  std::size_t count = 0;
  for (const std::uint8_t codes : spec.counts) count += codes;
  std::set<int> symbols(spec.symbols.begin(),
                        spec.symbols.begin() + static_cast<std::ptrdiff_t>(count));
  EXPECT_EQ(symbols.size(), count);
  return symbols;
}

Bytes record_of(const Bytes& file, const SharedTables* tables) {
  Made made = make_record(file, {.kind = RecordKind::indexed, .tables = tables});
  EXPECT_EQ(made.why, "");
  return std::move(made.record);
}

Header header_of(const Bytes& record) {
  Header header;
  EXPECT_EQ(read_header(read_record(record).payload, header), Foreign::none);
  return header;
}

TEST(SharedTables, HaveACodeForEverySymbol) {
  for (const std::vector<Bytes>& files : {std::vector<Bytes>{}, {file_of(pictures()[1])}}) {
    const SharedTables tables = tables_of(files);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::set<int> dc = symbols_of(tables.dc[i]);
      for (int bits = 0; bits <= 11; ++bits) EXPECT_TRUE(dc.contains(bits)) << bits;
      const std::set<int> ac = symbols_of(tables.ac[i]);
      EXPECT_TRUE(ac.contains(0x00) && ac.contains(0xf0));
      for (int run = 0; run < 16; ++run) {
        for (int bits = 1; bits <= 10; ++bits) EXPECT_TRUE(ac.contains(run << 4 | bits));
      }
    }
  }
}

TEST(SharedTables, AreThoseOfEveryRecord) {
  std::vector<Bytes> files;
  for (const Picture& picture : pictures()) files.push_back(file_of(picture));
  const SharedTables tables = tables_of(files);
  std::size_t shared = 0;
  std::size_t own = 0;
  for (const Bytes& file : files) {
    const Bytes record = record_of(file, &tables);
    const Header header = header_of(record);
    for (int c = 0; c < header.component_count; ++c) {
      const Component& component = header.components[static_cast<std::size_t>(c)];
      EXPECT_EQ(header.dc[static_cast<std::size_t>(component.dc)], tables.dc[c == 0 ? 0 : 1]);
      EXPECT_EQ(header.ac[static_cast<std::size_t>(component.ac)], tables.ac[c == 0 ? 0 : 1]);
    }
    EXPECT_EQ(test::coefficients_of(jpeg_of(read_record(record))), test::coefficients_of(file));
    shared += record.size();
    own += record_of(file, nullptr).size();
  }
  EXPECT_LT(static_cast<double>(shared), 1.1 * static_cast<double>(own));
}

TEST(SharedTables, AreBetterThanTheOnesOfOtherImages) {
  const Bytes fine = make_jpeg(make_pixels(200, 200, 3), {.quality = 99});
  const Bytes coarse = make_jpeg(make_pixels(200, 200, 3), {.quality = 30});
  const SharedTables of_fine = tables_of({fine});
  const SharedTables of_coarse = tables_of({coarse});
  EXPECT_LT(record_of(fine, &of_fine).size(), record_of(fine, &of_coarse).size());
  EXPECT_LT(record_of(coarse, &of_coarse).size(), record_of(coarse, &of_fine).size());
}

TEST(SharedTables, LeaveOutWhatTheyCannotHold) {
  CoefficientImage image;
  ASSERT_EQ(read_coefficients(file_of(pictures()[1]), {}, image), Foreign::none);
  EXPECT_TRUE(encodable(image));
  for (const auto& [at, most] : {std::pair<std::size_t, int>{0, 1023}, {7, 1023}}) {
    CoefficientImage large = image;
    large.blocks[1][at] = static_cast<std::int16_t>(most);
    EXPECT_TRUE(encodable(large));
    large.blocks[1][at] = static_cast<std::int16_t>(most + 1);
    EXPECT_FALSE(encodable(large));
    TableSample sample;
    sample.add(large);
    EXPECT_EQ(sample.tables().ac[0], TableSample().tables().ac[0]);
  }
}

// Records that share tables, others, and files, all in one call: lanes share what they can.
TEST(SharedTables, DecodeBesideOthers) {
  std::vector<Bytes> files;
  for (const Picture& picture : pictures()) files.push_back(file_of(picture));
  const SharedTables tables = tables_of(files);
  std::vector<Bytes> images;
  std::vector<Bytes> originals;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      originals.push_back(files[i]);
      const std::size_t kind = (i + static_cast<std::size_t>(repeat)) % 5;
      images.push_back(kind == 0   ? files[i]
                       : kind == 1 ? record_of(files[i], nullptr)
                                   : record_of(files[i], &tables));
    }
  }
  const auto decode = [](const std::vector<Bytes>& all) {
    std::vector<test::Keeper> keepers;
    keepers.reserve(all.size());
    std::vector<image::DecodeJob> jobs;
    for (const Bytes& bytes : all) {
      keepers.emplace_back(test::all);
      jobs.push_back({bytes, &keepers.back()});
    }
    image::Decoders decoders;
    decoders.decode(jobs, {});
    std::vector<std::vector<std::uint8_t>> pixels;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(jobs[i].status.ok()) << i;
      pixels.push_back(keepers[i].pixels().values);
    }
    return pixels;
  };
  test::for_each_target(
      [&](const std::string& name) { EXPECT_EQ(decode(images), decode(originals)) << name; });
}

}  // namespace
}  // namespace penstock::jpeg
