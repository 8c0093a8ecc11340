// A trainer that says what limits it.
//
//     report [STEPS]
//
// Takes so many steps of 5 ms (100 if not said) on the host's device, and prints what a feed says
// of itself: the verdict, a summary, the stages and the towers. The verdict, the summary, stages
// and towers of any program are also written where PENSTOCK_REPORT says, and served as metrics at
// PENSTOCK_METRICS, without a line in it. One line makes SIGTERM write them too:
//
//     PENSTOCK_REPORT=report-%r.json PENSTOCK_METRICS=9400 report 10000
//
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

#include <penstock/penstock.h>

namespace ps = penstock;

int main(int argc, char** argv) try {
  ps::report_at_signal(SIGTERM);
  const long steps = argc > 1 ? std::stol(argv[1]) : 100;
  const ps::Dataset train =
      ps::synthetic({.count = 256, .image_height = 64, .image_width = 64})
          .shuffle()
          .map(ps::decode_image("image").random_resized_crop(56).random_flip().normalize())
          .batch(16);
  ps::Feed feed(train, ps::devices("host:0"),
                {.max_bytes = 4096, .run = {.seed = 7, .epochs = UINT64_MAX}});
  const ps::Stream stream(feed.device(0).shared_from_this(), "tower 0");
  for (long step = 0; step < steps;) {
    std::optional<ps::StagedBatch> batch = feed.next(0);
    if (!batch) continue;  // an epoch's end
    batch->wait(stream);
    stream.view().busy(5'000'000);  // here a trainer would use the batch
    batch->release(stream);
    ++step;
  }
  stream.view().synchronize();
  std::fputs(ps::report(feed).text.c_str(), stdout);
} catch (const ps::Error& error) {
  std::fprintf(stderr, "report: %s\n", error.what());
  return 1;
}
