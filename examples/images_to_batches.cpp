// Images to batches: decode, crop at random, flip, normalise and stack, in a new order each epoch.
//
//     images_to_batches [FOLDER|PATTERN]
//
// A folder is searched for .jpg, .jpeg and .png; the label is the parent folder's. Files that are
// damaged are skipped and counted. Without an argument it makes up 100 JPEGs of 320 x 240
// pixels.
//
// Prints:
//     100 images, batches of {image: f32 [?,3,224,224], label: i64 [?], key: bytes [?]}
//     epoch 0: 32 from 00000063, 32 from 00000009, 32 from 00000098, 4 from 00000007
//     epoch 1: 32 from 00000070, 32 from 00000009, 32 from 00000048, 4 from 00000077
//     0 bad files
#include <cstdio>
#include <string>

#include <penstock/penstock.h>

namespace ps = penstock;

int main(int argc, char** argv) try {
  const ps::Dataset images =
      argc > 1 ? ps::images(argv[1])
               : ps::synthetic({.count = 100, .image_height = 240, .image_width = 320});

  const ps::Dataset batches =
      images.shuffle()
          .map(ps::decode_image("image").random_resized_crop(224).random_flip().normalize())
          .batch(32);
  std::printf("%lld images, batches of %s\n", static_cast<long long>(images.cardinality()),
              batches.spec().to_string().c_str());

  // Two epochs over the same seed: other crops and another order in the second, and the same two
  // whenever this runs, on any number of threads.
  ps::Iterator iterator = batches.iterate({.seed = 7, .epochs = 2, .on_error = ps::OnError::skip});
  do {
    std::printf("epoch %llu:", static_cast<unsigned long long>(iterator.epoch()));
    const char* separator = " ";
    for (const ps::Element& batch : iterator) {  // throws if there is an error
      // Here a trainer would use batch["image"].values<float>() and batch["label"].
      std::printf("%s%lld from %s", separator, static_cast<long long>(batch.valid_rows),
                  std::string(batch["key"].bytes_at(0)).c_str());
      separator = ", ";
    }
    std::printf("\n");
  } while (iterator.next_epoch());
  std::printf("%llu bad files\n", static_cast<unsigned long long>(iterator.stats().errors.count));
} catch (const ps::Error& error) {
  std::fprintf(stderr, "images_to_batches: %s\n", error.what());
  return 1;
}
