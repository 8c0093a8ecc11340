// Scans of JPEGs decoded as on a device, by the kernels' twin, against libjpeg-turbo and the host's
// decoder; and the kernels against the twin.
#include "tests/kernels/batches.h"  // first

#include <filesystem>

#include <gtest/gtest.h>

#include "staging/kernels/reconstruct.h"
#include "staging/reconstruct/twin.h"
#include "tests/kernels/scans.h"
#include "tests/support/data.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/jpeg_pair.h"

namespace penstock {
namespace entropy_test {

using test::Bytes;
using test::make_jpeg;
using test::make_pixels;
using test::ScannedJpeg;

const std::vector<test::ScanCase>& cases() {
  static const std::vector<test::ScanCase> all = test::scan_cases();
  return all;
}

void expect_coefficients(const test::ScanCase& c, int chunk_bits) {
  const auto plan = ScannedJpeg::plan(c.file, chunk_bits);
  ASSERT_TRUE(plan) << c.name;
  const ScannedJpeg scanned(*plan);
  ASSERT_TRUE(scanned.decode()) << c.name << ", chunks of " << chunk_bits << " bits";
  ASSERT_TRUE(scanned.coefficients() == test::coefficients_of(c.file).blocks)
      << c.name << ", chunks of " << chunk_bits << " bits";
}

TEST(EntropyTwin, CoefficientsOfLibjpeg) {
  EXPECT_GE(cases().size(), 60U);
  for (const test::ScanCase& c : cases()) expect_coefficients(c, jpeg::kChunkBits);
}

TEST(EntropyTwin, EveryChunkSize) {
  for (const test::ScanCase& c : cases()) {
    if (c.file.size() > 12000) continue;
    for (const int bits : {32, 33, 63, 64, 100, 127, 128, 256, 512, 1000, 2048, 4096, 65536})
      expect_coefficients(c, bits);
  }
}

/// 20 of them. With $PENSTOCK_JPEGS: all of them, with chunks of every size that their memory has
/// room for.
TEST(EntropyTwin, Photographs) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  const bool more = std::getenv("PENSTOCK_JPEGS") != nullptr;
  int fitting = 0;
  int all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (all == 20 && !more) break;
    ++all;
    const test::ScanCase c{entry.path().filename(), test::read_bytes(entry.path())};
    jpeg::Header header;
    if (jpeg::read_header(c.file, header) != jpeg::Foreign::none) continue;
    const image::Size size{header.height, header.width};
    if (!ScannedJpeg::plan(c.file)) {
      EXPECT_GT(size.height * size.width, 375 * 500) << c.name;
      continue;
    }
    ++fitting;
    expect_coefficients(c, jpeg::kChunkBits);
    expect_coefficients(c, 512);
    for (int bits = 32; bits <= jpeg::kMostChunkBits && more; bits *= 2)
      if (ScannedJpeg::plan(c.file, bits)) expect_coefficients(c, bits);
  }
  EXPECT_GT(fitting, all / 2);
}

/// Pixels of one color, whose bits are periodic, so that a wrong state stays wrong.
Bytes make_plain(int height, int width, bool optimised = false) {
  test::Pixels pixels{height, width, 3, {}};
  pixels.values.assign(static_cast<std::size_t>(height * width) * 3, 77);
  return make_jpeg(pixels, {.horizontal = 2, .vertical = 2, .optimised = optimised});
}

TEST(EntropyTwin, ChunksWithoutSynchronisation) {
  for (const bool optimised : {false, true}) {
    const Bytes file = make_plain(375, 500, optimised);
    for (const int bits : {32, 48, 100, 512, 1000, 1024, 4096}) {
      expect_coefficients({"plain", file}, bits);
    }
    const ScannedJpeg scanned(*ScannedJpeg::plan(file, 100));
    EXPECT_GT(scanned.decode_in_steps(1 << 20, [](auto&&...) {}), 50);
  }
}

TEST(EntropyTwin, RoundsBeyondTheLimit) {
  for (const int side : {900, 2000}) {
    const Bytes file = make_plain(side, side);
    image::Geometry geometry({side, side});
    geometry.crop({side - 50, side - 90, 20, 30});
    for (const int bits : {1000, 4000, 10000}) {
      const ScannedJpeg scanned(*ScannedJpeg::plan(file, bits, geometry));
      EXPECT_EQ(scanned.decode(), side == 900) << bits;
    }
  }
}

TEST(EntropyTwin, ScanLongerThanItsBlocks) {
  Bytes file = make_jpeg(make_pixels(8, 8, 1), {.quality = 70});
  const auto decoded = [&] {
    bool any = false;
    const ScannedJpeg scanned(*ScannedJpeg::plan(file));
    EXPECT_EQ(scanned.decode_in_steps(0, [&](auto&&...) { any = true; }), -1);
    return any;
  };
  jpeg::Header header;
  ASSERT_EQ(jpeg::read_header(file, header), jpeg::Foreign::none);
  file.insert(file.end() - 2, 249 - (file.size() - 2 - header.scan), std::byte{0x55});
  EXPECT_TRUE(decoded());
  file.insert(file.end() - 2, std::byte{0x55});
  EXPECT_FALSE(decoded());
}

TEST(EntropyTwin, NaturalOrder) {
  for (int k = 0; k < 64; ++k)
    EXPECT_EQ(reconstruct::natural_position(k), jpeg::kNaturalOrder[static_cast<std::size_t>(k)]);
}

TEST(JpegPlans, FilesForTheHost) {
  const test::Pixels pixels = make_pixels(40, 50, 3);
  Bytes twelve = make_jpeg(pixels);
  twelve[test::find_marker(twelve, 0xc0) + 4] = std::byte{12};
  Bytes no_tables = make_jpeg(pixels);
  no_tables[test::find_marker(no_tables, 0xc4) + 1] = std::byte{0xe7};
  Bytes no_code = make_jpeg(pixels);
  for (std::size_t i = 0; i < 3; ++i)
    no_code[test::find_marker(no_code, 0xc4) + 5 + i] = std::byte{2};
  const Bytes cut = make_jpeg(pixels);
  const struct {
    const char* name;
    Bytes file;
  } files[] = {{"progressive", make_jpeg(pixels, {.progressive = true})},
               {"arithmetic", make_jpeg(pixels, {.arithmetic = true})},
               {"several scans", make_jpeg(pixels, {.separate = true})},
               {"CMYK", make_jpeg(make_pixels(40, 50, 4))},
               {"12 bits", twelve},
               {"a table that is missing", no_tables},
               {"a table that is no code", no_code},
               {"a header that is cut", Bytes(cut.begin(), cut.begin() + 300)},
               {"no byte", {}},
               {"more than fits", make_jpeg(make_pixels(800, 900, 3))}};
  for (const auto& [name, file] : files) EXPECT_FALSE(ScannedJpeg::plan(file)) << name;
  EXPECT_TRUE(ScannedJpeg::plan(cut));
  const Bytes rgb = make_jpeg(pixels, {.rgb = true});
  EXPECT_TRUE(ScannedJpeg::plan(rgb));
  jpeg::Header header;
  ASSERT_EQ(jpeg::read_header(rgb, header), jpeg::Foreign::none);
  EXPECT_FALSE(jpeg::plan_jpeg(header, rgb, image::Geometry({40, 50}), 1));
  ASSERT_EQ(jpeg::read_header(cut, header), jpeg::Foreign::none);
  header.ac[2] = header.ac[0];
  header.components[2].ac = 2;
  EXPECT_TRUE(jpeg::plan_jpeg(header, cut, image::Geometry({40, 50}), 3)) << "an equal table";
  header.ac[2].symbols[3] ^= 1;
  EXPECT_FALSE(jpeg::plan_jpeg(header, cut, image::Geometry({40, 50}), 3)) << "a third table";
}

/// Whatever the bytes are: nothing outside is accessed, and if the twin finishes, the host's own
/// decoder accepts the file and has the same coefficients.
class DamagedScan {
 public:
  void expect_sound(const Bytes& file, const std::string& what) {
    const auto plan = ScannedJpeg::plan(file);
    if (!plan) return;
    const ScannedJpeg scanned(*plan);
    const bool finished = scanned.decode();
    finished_ += finished ? 1 : 0;
    const std::uint64_t before = jpeg::counts().own;
    const test::DecodeOutcome host = test::decode(*decoder_, file, test::all);
    const bool own = jpeg::counts().own > before;
    own_ += own ? 1 : 0;
    if (!finished) return;
    ASSERT_TRUE(own && host.status.ok()) << what;
    ASSERT_TRUE(scanned.coefficients() == test::coefficients_of(file).blocks) << what;
  }
  int finished() const { return finished_; }
  int own() const { return own_; }

 private:
  std::unique_ptr<image::Decoder> decoder_ = jpeg::make_decoder();
  int finished_ = 0;
  int own_ = 0;
};

TEST(EntropyTwin, DamagedBytes) {
  const std::vector<Bytes> files{
      make_jpeg(make_pixels(24, 40, 3), {.horizontal = 2, .vertical = 2}),
      make_jpeg(make_pixels(24, 40, 3), {.quality = 50, .restart_interval = 2}),
      make_jpeg(make_pixels(17, 30, 1), {.quality = 30, .optimised = true}),
      make_jpeg(make_pixels(9, 100, 3), {.quality = 99, .horizontal = 2, .restart_interval = 1})};
  DamagedScan damaged;
  Rng rng(59, 0, 0);
  for (int number = 0; number < 3000; ++number) {
    Bytes file = files[static_cast<std::size_t>(number) % files.size()];
    jpeg::Header header;
    ASSERT_EQ(jpeg::read_header(file, header), jpeg::Foreign::none);
    const std::size_t size = file.size() - header.scan;
    const auto somewhere = [&](std::size_t before_end = 0) {
      return file.begin() + static_cast<std::ptrdiff_t>(header.scan + rng.below(size - before_end));
    };
    switch (number / 4 % 8) {
      case 0:
      case 1:
      case 2:
        *somewhere() ^= static_cast<std::byte>(1U << rng.below(8));
        break;
      case 3:
        for (int i = 0; i < 4; ++i) *somewhere() = static_cast<std::byte>(rng.below(256));
        break;
      case 4:
        file.resize(header.scan + rng.below(size + 1));
        break;
      case 5:
        file.erase(somewhere());
        break;
      case 6:
        file.insert(somewhere(), static_cast<std::byte>(rng.below(3) == 0 ? 0xff : rng.below(256)));
        break;
      default: {  // the last bits, or markers
        const auto at = file.end() - 3 - static_cast<std::ptrdiff_t>(rng.below(3));
        *at = static_cast<std::byte>(rng.below(256));
        if (number % 3 == 0) file.insert(file.end() - 2, std::byte{0xff});
      }
    }
    damaged.expect_sound(file, "case " + std::to_string(number));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(damaged.finished(), 300);
  // The host accepts a few more: fill bytes, and padding that holds a whole code.
  EXPECT_LE(damaged.finished(), damaged.own());
  EXPECT_GT(damaged.finished() * 10, damaged.own() * 9);
  for (Bytes file : files) {
    jpeg::Header header;
    ASSERT_EQ(jpeg::read_header(file, header), jpeg::Foreign::none);
    for (const int value : {0, 0xff, 0xd0, 0xd9, 0x55}) {
      std::fill(file.begin() + static_cast<std::ptrdiff_t>(header.scan), file.end() - 2,
                static_cast<std::byte>(value));
      damaged.expect_sound(file, "all " + std::to_string(value));
    }
  }
}

TEST(EntropyTwin, Markers) {
  const Bytes file = make_jpeg(make_pixels(24, 40, 3), {.quality = 70, .restart_interval = 2});
  jpeg::Header header;
  ASSERT_EQ(jpeg::read_header(file, header), jpeg::Foreign::none);
  // The first restart marker.
  std::ptrdiff_t first = static_cast<std::ptrdiff_t>(header.scan);
  while (file[static_cast<std::size_t>(first)] != std::byte{0xff} ||
         file[static_cast<std::size_t>(first) + 1] != std::byte{0xd0})
    ++first;
  const auto end = static_cast<std::ptrdiff_t>(file.size());
  const auto with = [&](std::ptrdiff_t at, std::initializer_list<int> bytes,
                        std::ptrdiff_t instead_of = 0) {
    Bytes made = file;
    made.erase(made.begin() + at, made.begin() + at + instead_of);
    Bytes more;
    for (const int byte : bytes) more.push_back(static_cast<std::byte>(byte));
    made.insert(made.begin() + at, more.begin(), more.end());
    return made;
  };
  const struct {
    const char* name;
    Bytes file;
    bool finished;
  } files[] = {{"as it is", file, true},
               {"bytes behind the end", with(end, {0xff, 0xd3, 1, 0xff}), true},
               {"no end", with(end - 2, {}, 2), false},
               {"half an end", with(end - 1, {}, 1), false},
               {"another number", with(first + 1, {0xd1}, 1), false},
               {"no marker", with(first, {}, 2), false},
               {"a marker twice", with(first, {0xff, 0xd0}), false},
               {"a marker before the end", with(end - 2, {0xff, 0xd7}), false},
               {"fill bytes", with(first, {0xff}), false},
               {"fill bytes before the end", with(end - 2, {0xff}), false},
               {"another marker", with(first, {0xff, 0xe0, 0, 2}), false},
               {"a byte too many", with(first, {0x55}), false},
               {"stuffing too many", with(end - 2, {0xff, 0}), false}};
  for (const auto& [name, made, finished] : files)
    EXPECT_EQ(ScannedJpeg(*ScannedJpeg::plan(made)).decode(), finished) << name;
}

/// The batch of a case whose images are JPEGs, where their plans can be for JPEGs.
reconstruct::Batch jpeg_batch(test::Memory& memory, const test::PackedCase& made, int chunk_bits) {
  test::BatchInput input = test::input_of(made);
  test::BatchInput jpegs;
  for (std::size_t i = 0; i < input.plans.size(); ++i) {
    jpeg::DevicePlan plan = input.plans[i];
    std::string_view bytes = std::string_view(input.text)
                                 .substr(input.offsets[i], input.offsets[i + 1] - input.offsets[i]);
    const auto scan = ScannedJpeg::plan(made.files[i], chunk_bits);
    if (plan.kind == jpeg::PlanKind::coefficients && scan) {
      plan.kind = jpeg::PlanKind::jpeg;
      plan.part_count = 0;
      plan.scan = scan->plan.scan;
      bytes = {reinterpret_cast<const char*>(scan->bytes.data()), scan->bytes.size()};
    }
    jpegs.text += bytes;
    jpegs.offsets.push_back(jpegs.text.size());
    jpegs.plans.push_back(plan);
  }
  std::int32_t* const fits =
      memory.fill<std::int32_t>(static_cast<std::int64_t>(jpegs.plans.size()), [] { return -1; });
  reconstruct::Batch batch = test::batch_of(memory, made, jpegs);
  batch.jpegs = 1;
  batch.fits = fits;
  return batch;
}

TEST(EntropyKernels, PixelsOfTheHost) {
  int jpegs = 0;
  for (int number = 0; number < 25; ++number) {
    const test::PackedCase made = test::packed_case(number);
    test::Memory theirs(1);
    test::Memory ours(1);
    const int bits = number % 2 == 0 ? 128 : jpeg::kChunkBits;
    const reconstruct::Batch twin = jpeg_batch(theirs, made, bits);
    reconstruct::run_here(twin);
    const reconstruct::Batch batch = jpeg_batch(ours, made, bits);
    kernels::reconstruct_batch(batch, [](const auto& body, kernels::Grid grid) {
      emulation::launch(body, {grid.x, grid.y, grid.z});
    });
    EXPECT_TRUE(test::same_output(theirs, ours)) << number;
    const std::vector<WorkItem> host =
        test::run_op(made.ops, made.files, static_cast<std::uint64_t>(number));
    const emulation::Fenced& out = ours.parts.back();
    const std::size_t stride = out.size() / host.size();
    for (std::size_t i = 0; i < host.size(); ++i) {
      if (batch.plans[i].kind != jpeg::PlanKind::jpeg) continue;
      ++jpegs;
      EXPECT_EQ(batch.fits[i], static_cast<std::int32_t>(jpeg::PlanFit::fits));
      EXPECT_EQ(twin.fits[i], static_cast<std::int32_t>(jpeg::PlanFit::fits));
      ASSERT_EQ(host[i].element["image"].nbytes(), stride);
      EXPECT_EQ(std::memcmp(host[i].element["image"].data(), out.data() + i * stride, stride), 0)
          << number << " image " << i;
    }
  }
  EXPECT_GT(jpegs, 30);
}

TEST(EntropyKernels, DamagedBatches) {
  int undecoded = 0;
  for (int number = 0; number < 10; ++number) {
    const test::PackedCase made = test::packed_case(number);
    const auto damaged_batch = [&](test::Memory& memory) {
      const reconstruct::Batch batch = jpeg_batch(memory, made, 64);
      const emulation::Fenced& packed = memory.parts[2];
      if (packed.size() > 0)
        packed.data()[memory.rng.below(packed.size())] ^=
            static_cast<unsigned char>(1 + memory.rng.below(255));
      const emulation::Fenced& plans = memory.parts[3];
      if (number % 3 == 0) plans.data()[memory.rng.below(sizeof(jpeg::DevicePlan))] ^= 1U;
      return batch;
    };
    test::Memory theirs(static_cast<std::uint64_t>(number));
    test::Memory ours(static_cast<std::uint64_t>(number));
    const reconstruct::Batch twin = damaged_batch(theirs);
    reconstruct::run_here(twin);
    const reconstruct::Batch batch = damaged_batch(ours);
    kernels::reconstruct_batch(batch, [](const auto& body, kernels::Grid grid) {
      emulation::launch(body, {grid.x, grid.y, grid.z});
    });
    EXPECT_TRUE(test::same_output(theirs, ours)) << number;
    for (std::int64_t i = 0; i < batch.count; ++i) {
      EXPECT_EQ(batch.fits[i], twin.fits[i]) << number;
      undecoded += batch.fits[i] == static_cast<std::int32_t>(jpeg::PlanFit::undecoded) ? 1 : 0;
    }
  }
  EXPECT_GT(undecoded, 2);
}

/// Plans that no host makes.
TEST(EntropyTwin, DamagedPlans) {
  const Bytes file =
      make_jpeg(make_pixels(40, 60, 3), {.horizontal = 2, .vertical = 2, .restart_interval = 3});
  const auto image = ScannedJpeg::plan(file, 256);
  test::Memory memory(5);
  auto* const packed = memory.leave<std::uint8_t>(static_cast<std::int64_t>(image->bytes.size()));
  std::memcpy(packed, image->bytes.data(), image->bytes.size());
  const std::uint64_t offsets[] = {0, image->bytes.size()};
  auto* const plan = memory.leave<jpeg::DevicePlan>(1);
  std::int32_t fit = -1;
  reconstruct::Batch batch;
  batch.offsets = offsets;
  batch.packed = packed;
  batch.plans = plan;
  batch.work = memory.leave<std::uint8_t>(reconstruct::kImageWork);
  batch.out = memory.leave<std::uint8_t>(40 * 60 * 3);
  batch.jpegs = 1;
  batch.fits = &fit;
  batch.count = 1;
  batch.height = 40;
  batch.width = 60;
  batch.channels = 3;
  batch.bytes = 1;
  constexpr std::size_t kFacts = offsetof(jpeg::DevicePlan, quantisation);
  constexpr std::size_t kScan = offsetof(jpeg::DevicePlan, scan);
  std::array<int, 5> seen{};
  for (int number = 0; number < 2000; ++number) {
    std::memcpy(plan, &image->plan, sizeof(*plan));
    auto* const bytes = reinterpret_cast<unsigned char*>(plan);
    for (int i = number % 2; i >= 0; --i) {
      const std::size_t at =
          number % 3 == 0
              ? memory.rng.below(kFacts)
              : kScan + memory.rng.below(number % 3 == 1 ? offsetof(jpeg::DeviceScan, tables)
                                                         : sizeof(jpeg::DeviceScan));
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1U << memory.rng.below(8));
    }
    reconstruct::run_here(batch);
    ++seen.at(static_cast<std::size_t>(fit));
  }
  for (const jpeg::PlanFit some :
       {jpeg::PlanFit::fits, jpeg::PlanFit::damaged, jpeg::PlanFit::undecoded})
    EXPECT_GT(seen.at(static_cast<std::size_t>(some)), 50);
}

/// Faults that the comparisons above have to find: what they would see.
bool is_found(const Bytes& file, int most_rounds, const auto& fault) {
  const ScannedJpeg scanned(*ScannedJpeg::plan(file, 128));
  if (scanned.decode_in_steps(most_rounds, fault) < 0) return true;
  return scanned.coefficients() != test::coefficients_of(file).blocks;
}

TEST(PlantedInEntropy, WrongBitPositions) {
  const Bytes file = make_jpeg(make_pixels(40, 60, 3), {.quality = 60, .horizontal = 2});
  EXPECT_FALSE(is_found(file, 1000, [](auto&&...) {}));
  int chunks = 0;
  int found = 0;
  for (std::uint32_t at = 1; at < 20; ++at) {
    ++chunks;
    found += is_found(file, 1000, [&](jpeg::DeviceChunk* all, std::uint32_t count) {
      ASSERT_LT(at, count);
      all[at].begin.bit += 1;
    });
  }
  EXPECT_EQ(found, chunks);
}

TEST(PlantedInEntropy, MissingRounds) {
  const Bytes file = make_jpeg(make_pixels(40, 60, 3), {.quality = 60, .horizontal = 2});
  const ScannedJpeg scanned(*ScannedJpeg::plan(file, 128));
  const int needed = scanned.decode_in_steps(1000, [](auto&&...) {});
  EXPECT_GT(needed, 1);
  for (int rounds = 0; rounds < needed; ++rounds)
    EXPECT_TRUE(is_found(file, rounds, [](auto&&...) {})) << rounds;
}

}  // namespace entropy_test
}  // namespace penstock
