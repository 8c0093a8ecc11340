// One run in which something is wrong on purpose, or something was done about it; prints what
// ps::report says of it, as a line of JSON:
//   penstock_verdict_bench SITUATION made|done [FILES] [MEMORY_BYTES]
//   penstock_verdict_bench list
// bench/verdicts/run.py makes what a program can't do to itself, and compares.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <penstock/penstock.h>

#include "bench/main.h"
#include "bench/verdicts/situations.h"

namespace penstock::bench {
namespace {

Report of_loop(const Situation& situation) {
  Iterator run = situation.dataset.iterate(situation.run);
  for (std::int64_t i = 0; i < situation.batches; ++i) {
    Next next = run.next();
    next.value();
    std::this_thread::sleep_for(situation.step);
  }
  return report(run);
}

Report of_tower(const Situation& situation) {
  Feed feed(situation.dataset, devices(situation.device),
            {.slots = situation.device_slots, .run = situation.run});
  const Stream stream(feed.device(0).shared_from_this(), "tower 0");
  for (std::int64_t i = 0; i < situation.batches; ++i) {
    std::optional<StagedBatch> batch = feed.next(0);
    if (!batch) break;
    batch->wait(stream);
    stream.view().busy(std::chrono::nanoseconds(situation.step).count());
    batch->release(stream);
  }
  stream.view().synchronize();
  return report(feed);
}

}  // namespace

int run(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "list") {
    for (const std::string& name : situation_names()) std::puts(name.c_str());
    return 0;
  }
  const std::string how = argc > 2 ? argv[2] : "";
  if (argc < 3 || argc > 5 || (how != "made" && how != "done")) {
    std::cerr << "usage: penstock_verdict_bench SITUATION made|done [FILES] [MEMORY_BYTES]\n";
    return 2;
  }
  const Given given{.done = how == "done",
                    .files = argc > 3 ? argv[3] : "",
                    .memory_bytes = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0};
  const Situation situation = make_situation(argv[1], given);
  const Report what = situation.device.empty() ? of_loop(situation) : of_tower(situation);
  std::cout << what.json << '\n';
  return 0;
}

}  // namespace penstock::bench
