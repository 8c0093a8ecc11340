// Images: what they come from, and what is made of them.
#include "tests/record/data.h"
#include "tests/record/graph.h"

namespace penstock::test {
namespace {

/// Pixels of one size, as bytes: a function of the file on every machine.
ImageOps small() {
  return decode_image().resize(16, 12);
}

}  // namespace

std::vector<RecordedGraph> image_graphs() {
  constexpr std::uint64_t kLeast = 128 << 10;
  return {
      {.name = "images_folder",
       .build = [] { return images(pictures()).shuffle().map(small()).batch(4); },
       .least = kLeast},
      {.name = "images_pattern",
       .build =
           [] {
             ImagesOptions options;
             options.label_regex = "([0-9])[.]jpg$";
             return images(pictures() + "/*/*.jpg", options);
           },
       .least = kLeast},
      {.name = "images_augmented",
       .build =
           [] {
             return images(pictures())
                 .shuffle()
                 .repeat(2)
                 .map(decode_image().random_resized_crop(20).random_flip())
                 .batch(6);
           },
       .least = kLeast},
      {.name = "images_cropped",
       .build =
           [] {
             return images(pictures())
                 .map(decode_image("image", {.channels = 1})
                          .resize_short(20)
                          .center_crop(18, 30)
                          .random_pad_crop(16, 16, 3)
                          .cast(DType::f16, Layout::chw))
                 .batch(4, {.drop_remainder = true});
           },
       .least = kLeast},
      {.name = "images_normalised",
       .build =
           [] {
             return images(pictures())
                 .map(decode_image().random_resized_crop(12).normalize())
                 .batch(5);
           },
       .least = kLeast},
      {.name = "images_decoded_alone",
       .build = [] { return images(pictures()).map(decode_image()).shard(2, 1); },
       .least = kLeast},
      {.name = "image_tar",
       .build = [] { return tar({image_tars()}).shuffle().map(small()).batch(3); },
       .least = kLeast},
      {.name = "image_records_coefficients",
       .build =
           [] {
             return image_records({packed_pictures(true)})
                 .shuffle()
                 .map(decode_image().random_resized_crop(20).random_flip())
                 .batch(4);
           },
       .least = kLeast},
      {.name = "image_records_indexed",
       .build =
           [] { return image_records({packed_pictures(false)}).map(small()).shuffle().batch(4); },
       .least = kLeast},
      {.name = "image_records_for_a_device",
       .build =
           [] {
             return image_records({packed_pictures(true)})
                 .map(decode_image().random_resized_crop(20).random_flip().normalize().on_device())
                 .batch(4);
           },
       .least = kLeast,
       .needs_vectors = true},
      {.name = "synthetic_images",
       .build =
           [] {
             SyntheticOptions options;
             options.count = 9;
             options.image_height = 30;
             options.image_width = 44;
             return synthetic(options).map(small()).batch(4);
           },
       .least = kLeast},
      {.name = "mixup",
       .build =
           [] {
             return images(pictures())
                 .map(small().cast(DType::f32, Layout::hwc))
                 .batch(5)
                 .map_op(mixup({.classes = 3}));
           },
       .least = kLeast},
      {.name = "cutmix",
       .build =
           [] { return images(pictures()).map(small()).batch(5).map_op(cutmix({.classes = 3})); },
       .least = kLeast},
  };
}

}  // namespace penstock::test
