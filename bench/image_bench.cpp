// penstock_image_bench FOLDER [ROUNDS [OPS [TARGET]]]: the fused image op beside the bare
// region-decode loop, one thread, the same files and crops, interleaved. Prints a line per round
// and the median ratio.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <penstock/image.h>
#include <penstock/simd.h>

#include "bench/one_thread.h"
#include "bench/region_loop.h"

namespace penstock::bench {
namespace {

double seconds_of(const auto& work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

ImageOps chain_of(const std::string& ops) {
  if (ops == "small") {
    return decode_image("image").random_pad_crop(32, 32, 4).random_flip().normalize();
  }
  const ImageOps base = decode_image("image").random_resized_crop(224);
  if (ops == "resize") return base;
  if (ops == "jitter") {
    return base.random_flip().color_jitter({0.4, 0.4, 0.4, 0.1}).normalize();
  }
  if (ops == "half") return base.random_flip().normalize({.dtype = DType::f16});
  return base.random_flip().normalize();
}

int run(const std::string& folder, int rounds, const std::string& ops) {
  const Files files = load_files(folder);
  const WorkOpPtr op = chain_of(ops).op();
  const Spec output = op->infer(Spec({{"image", DType::bytes, Shape()}}));
  constexpr std::size_t kRows = 64;
  const std::size_t row_bytes =
      static_cast<std::size_t>(output[0].shape.volume()) * size_of(output[0].dtype);
  // Two slots, as a consumer that keeps one batch would have it.
  const BufferPtr slots = allocate_buffer(2 * kRows * row_bytes);
  std::byte* base = slots->data();
  RegionLoop loop(224);
  Context context;
  const auto decode_bare = [&](std::size_t i, std::uint64_t key) {
    if (ops == "small") {
      loop.decode_whole(files[i]);
    } else {
      loop.decode(files[i], Rng(key, i, 0), i);
    }
  };
  const Names* names = Names::intern(std::vector<std::string>{"image"});
  // As many at once as the op likes, as the engine does.
  std::vector<WorkItem> items(op->preferred_group());
  const auto run_fused = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      WorkItem& item = items[i - first];
      item.ordinal = i;
      const auto* text = reinterpret_cast<const char*>(files[i].data());
      item.element.reset(names);
      item.element[0] = Tensor::bytes({text, files[i].size()}, BufferPtr());
      item.row = Row(&base, &row_bytes, i % (2 * kRows));
    }
    op->run({items.data(), last - first}, context);
    for (std::size_t i = first; i < last; ++i) {
      const Status& status = items[i - first].status;
      if (status.ok()) continue;
      std::fprintf(stderr, "%s\n", status.error().what());
      std::exit(1);
    }
  };
  // Files that one side does before the other does them.
  const std::size_t turn = std::max<std::size_t>(files.size() / 30, 2 * items.size());
  std::vector<double> ratios;
  for (int round = -1; round < rounds; ++round) {
    const auto key = static_cast<std::uint64_t>(round + 1);
    context.set_key(key);
    double bare = 0;
    double fused = 0;
    for (std::size_t first = 0; first < files.size(); first += turn) {
      const std::size_t last = std::min(first + turn, files.size());
      const auto bare_turn = [&] {
        for (std::size_t i = first; i < last; ++i) decode_bare(i, key);
      };
      const auto fused_turn = [&] {
        for (std::size_t i = first; i < last; i += items.size())
          run_fused(i, std::min(i + items.size(), last));
      };
      const bool bare_first = first / turn % 2 == 0;
      if (bare_first) bare += seconds_of(bare_turn);
      fused += seconds_of(fused_turn);
      if (!bare_first) bare += seconds_of(bare_turn);
    }
    if (round < 0) continue;  // warms up
    ratios.push_back(bare / fused);
    const double count = static_cast<double>(files.size());
    std::printf("bare %.1f us  fused %.1f us  ratio %.4f\n", bare / count * 1e6,
                fused / count * 1e6, ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("%s: median ratio %.4f (%.4f … %.4f)\n", op->name().c_str(),
              ratios[ratios.size() / 2], ratios.front(), ratios.back());
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: penstock_image_bench FOLDER [ROUNDS [normalize|half|resize|jitter|small "
                 "[TARGET]]]\n");
    return 2;
  }
  if (argc > 4) penstock::choose_simd(argv[4]);
  return penstock::bench::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 7,
                              argc > 3 ? argv[3] : "normalize");
}
