// Batches of packed images that are small enough for threads of the host.
#pragma once

#include "tests/kernels/cases.h"  // first

#include <string>
#include <vector>

#include "pipeline/image/on_device.h"
#include "staging/reconstruct/image.h"
#include "tests/staging/reconstruct_on.h"

namespace penstock::test {

/// A chain of ops, and the images that it runs on. One of them may be damaged.
struct PackedCase {
  ImageOps ops;
  std::vector<Bytes> files{};   ///< the JPEGs of the images
  std::vector<Bytes> images{};  ///< kept here, because `items` refers to them
  std::vector<WorkItem> items{};
};

inline PackedCase packed_case(int number) {
  Rng rng(static_cast<std::uint64_t>(number), 7, 0);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  const ImageOps image = decode_image("image", {.channels = number % 4 == 3 ? 1 : 3});
  const std::vector<ImageOps> chains{
      image.random_resized_crop(between(1, 12)).random_flip().normalize(),
      image.resize(between(1, 20), between(1, 20)).random_flip(1).cast(DType::u8, Layout::chw),
      image.resize_short(between(4, 20))
          .center_crop(4, 4)
          .normalize({.dtype = DType::bf16, .layout = Layout::hwc}),
      image.center_crop(between(1, 30), between(1, 30)).random_flip(1),
      image.random_pad_crop(between(1, 9), between(1, 9), 5)
          .random_flip()
          .normalize({.dtype = DType::f16}),
  };
  PackedCase made{chains[static_cast<std::size_t>(number) % chains.size()]};
  for (int i = between(1, 3); i > 0; --i) {
    const int factors = between(0, 3);
    made.files.push_back(make_jpeg(
        make_pixels(between(1, 60), between(1, 60), number % 5 == 4 ? 1 : 3, rng.next_u64()),
        {.quality = between(1, 100), .horizontal = 1 + factors % 2, .vertical = 1 + factors / 2}));
    made.images.push_back(record_of(made.files.back()));
  }
  made.items = run_op(made.ops.on_device(), made.images, static_cast<std::uint64_t>(number));
  return made;
}

/// The input of a batch.
struct BatchInput {
  std::string text;
  std::vector<std::uint64_t> offsets{0};
  std::vector<jpeg::DevicePlan> plans;
};

inline BatchInput input_of(const PackedCase& made) {
  BatchInput input;
  for (const WorkItem& item : made.items) {
    if (item.status.ok()) input.text += item.element["image"].bytes_at();
    input.plans.push_back(item.status.ok() ? plan_of(item.element) : jpeg::DevicePlan());
    input.offsets.push_back(input.text.size());
  }
  return input;
}

/// Returns the batch, in `memory`. Its output is the last part of that.
inline reconstruct::Batch batch_of(Memory& memory, const PackedCase& made,
                                   const BatchInput& input) {
  const ImageOps::Chain& chain = made.ops.chain();
  const image::OutputFormat format = image::output_format(chain);
  const auto& [text, offsets, plans] = input;
  const auto copy = [&]<typename T>(const T* from, std::size_t count) {
    T* const to = memory.leave<T>(static_cast<std::int64_t>(count));
    std::memcpy(to, from, count * sizeof(T));
    return to;
  };
  reconstruct::Batch batch;
  batch.count = static_cast<std::int64_t>(made.items.size());
  batch.height = image::size_on_device(chain).height;
  batch.width = image::size_on_device(chain).width;
  batch.channels = format.channels;
  batch.channels_first = format.layout == Layout::chw ? 1 : 0;
  batch.bytes = format.dtype == DType::u8 ? 1 : 0;
  batch.type = format.dtype == DType::f16    ? FinishType::f16
               : format.dtype == DType::bf16 ? FinishType::bf16
                                             : FinishType::f32;
  for (std::size_t c = 0; c < 3; ++c) {
    batch.scale[c] = format.scale[c];
    batch.bias[c] = format.bias[c];
  }
  batch.offsets = copy(offsets.data(), offsets.size());
  batch.packed = copy(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  batch.plans = copy(plans.data(), plans.size());
  batch.work = memory.leave<std::uint8_t>(batch.count * reconstruct::kImageWork);
  batch.out = memory.leave<std::byte>(batch.count * batch.height * batch.width * batch.channels *
                                      static_cast<std::int64_t>(size_of(format.dtype)));
  return batch;
}

inline reconstruct::Batch batch_of(Memory& memory, const PackedCase& made) {
  return batch_of(memory, made, input_of(made));
}

inline bool same_output(const Memory& a, const Memory& b) {
  return std::memcmp(a.parts.back().data(), b.parts.back().data(), a.parts.back().size()) == 0;
}

}  // namespace penstock::test
