// Scans of JPEGs, decoded on devices of each kind by the kernels, against the host's chain.
#include "pipeline/image/device/jpeg_plan.h"
#include "staging/reconstruct/run_on.h"
#include "tests/staging/reconstruct_on.h"

namespace penstock {
namespace {

using test::Bytes;
using test::make_jpeg;
using test::make_pixels;

class Scans : public test::Reconstruct {
 protected:
  template <typename T>
  const T* copy(const std::vector<T>& values) {
    return reinterpret_cast<const T*>(to_device(values.data(), values.size() * sizeof(T)));
  }
  std::vector<std::byte> from_device(const std::byte* data, std::size_t bytes) {
    std::vector<std::byte> got(bytes);
    stream_->view().copy({got.data(), data, bytes});
    stream_->view().synchronize();
    return got;
  }

  struct Made {
    std::vector<std::byte> pixels;  ///< u8 HWC, of 3 channels
    std::vector<std::int32_t> fits;
  };
  /// Decodes whole JPEGs of one size. Those without a plan are padding.
  Made decode(const std::vector<Bytes>& files, image::Size size) {
    std::vector<jpeg::DevicePlan> plans(files.size());
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::byte> packed;
    for (std::size_t i = 0; i < files.size(); ++i) {
      jpeg::Header header;
      if (jpeg::read_header(files[i], header) == jpeg::Foreign::none) {
        if (const auto image = jpeg::plan_jpeg(header, files[i], image::Geometry(size), 3)) {
          plans[i] = image->plan;
          packed.insert(packed.end(), image->bytes.begin(), image->bytes.end());
        }
      }
      offsets.push_back(packed.size());
    }
    const std::size_t count = files.size();
    const std::size_t work = count * static_cast<std::size_t>(reconstruct::kImageWork);
    const std::size_t out = count * static_cast<std::size_t>(size.height * size.width) * 3;
    reconstruct::Batch batch;
    batch.offsets = copy(offsets);
    batch.packed = reinterpret_cast<const std::uint8_t*>(copy(packed));
    batch.plans = copy(plans);
    batch.work = reinterpret_cast<std::uint8_t*>(memory(work));
    batch.out = memory(out);
    batch.jpegs = 1;
    batch.fits = reinterpret_cast<std::int32_t*>(memory(count * sizeof(std::int32_t)));
    batch.count = static_cast<std::int64_t>(count);
    batch.height = size.height;
    batch.width = size.width;
    batch.channels = 3;
    batch.bytes = 1;
    const auto bytes_at = [](const void* data) { return static_cast<const std::byte*>(data); };
    reconstruct::run_on(*stream_, batch, out, work);
    Made made;
    made.pixels = from_device(bytes_at(batch.out), out);
    const std::vector<std::byte> fits =
        from_device(bytes_at(batch.fits), count * sizeof(std::int32_t));
    made.fits.resize(count);
    std::memcpy(made.fits.data(), fits.data(), fits.size());
    return made;
  }

  /// Returns the number of images that the device decoded.
  int expect_pixels(const std::vector<Bytes>& files, image::Size size) {
    const Made made = decode(files, size);
    const std::size_t stride = made.pixels.size() / files.size();
    int decoded = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (made.fits[i] != static_cast<std::int32_t>(jpeg::PlanFit::fits)) continue;
      ++decoded;
      const test::Pixels host = test::decode_jpeg_plainly(files[i], 1, JCS_RGB);
      EXPECT_EQ(std::memcmp(host.values.data(), made.pixels.data() + i * stride, stride), 0) << i;
    }
    return decoded;
  }
};

TEST_P(Scans, Samplings) {
  constexpr image::Size kSize{75, 131};
  std::vector<Bytes> files;
  for (const int interval : {0, 1, 7})
    for (const int factors : {0x11, 0x21, 0x12, 0x22, 0x41})
      for (const bool optimised : {false, true})
        files.push_back(make_jpeg(make_pixels(kSize.height, kSize.width, 3, files.size()),
                                  {.quality = 20 + static_cast<int>(files.size()) * 2,
                                   .horizontal = factors >> 4,
                                   .vertical = factors & 15,
                                   .restart_interval = interval,
                                   .optimised = optimised}));
  files.push_back(make_jpeg(make_pixels(kSize.height, kSize.width, 1)));
  EXPECT_EQ(expect_pixels(files, kSize), static_cast<int>(files.size()));
}

TEST_P(Scans, LargeImages) {
  constexpr image::Size kSize{375, 500};
  std::vector<Bytes> files;
  for (const int quality : {5, 50, 75, 95})
    files.push_back(make_jpeg(make_pixels(kSize.height, kSize.width, 3, files.size()),
                              {.quality = quality, .horizontal = 2, .vertical = 2}));
  EXPECT_EQ(expect_pixels(files, kSize), static_cast<int>(files.size()));
}

TEST_P(Scans, DamagedBytes) {
  constexpr image::Size kSize{40, 50};
  const Bytes whole = make_jpeg(make_pixels(kSize.height, kSize.width, 3),
                                {.horizontal = 2, .vertical = 2, .restart_interval = 2});
  jpeg::Header header;
  ASSERT_EQ(jpeg::read_header(whole, header), jpeg::Foreign::none);
  Rng rng(3, 0, 0);
  std::vector<Bytes> files;
  for (int i = 0; i < 64; ++i) {
    files.push_back(whole);
    if (i == 0) continue;
    files.back()[header.scan + rng.below(whole.size() - header.scan)] ^=
        static_cast<std::byte>(1U << rng.below(8));
    if (i % 4 == 0)
      files.back().resize(header.scan + 1 + rng.below(whole.size() - header.scan - 1));
  }
  const int decoded = expect_pixels(files, kSize);
  EXPECT_GE(decoded, 1);
  EXPECT_LT(decoded, 50);
}

INSTANTIATE_TEST_SUITE_P(Devices, Scans, testing::ValuesIn(test::bed_kinds()), test::name_of_bed);

}  // namespace
}  // namespace penstock
