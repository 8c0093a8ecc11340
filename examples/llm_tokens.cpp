// Batches of tokens for a language model, in place of llm.c's dataloader.h.
//
//     llm_tokens ['fineweb_train_*.bin']
//
// Without arguments it reads two shards from memory. The calls of dataloader.h become:
//
//     dataloader_init(&loader, pattern, B, T, rank, ranks, shuffle)    token_shards(…) and Feed
//     dataloader_next_batch(&loader): loader.inputs, loader.targets    feed.next(0)
//     dataloader_reset(&loader)                                        the next epoch, by itself
//     dataloader_resume(&loader, shard, sample)                        feed.save(), Feed::restore
//
// One shuffle covers the windows of all shards, in the same order for any number of ranks. On a GPU
// ("cuda:0" for "host:0") batches lie in pinned memory, and are copied to two slots by turns.
//
// Prints:
//     {tokens: i32 [65]}, 46 windows
//     rank 0, step 1: inputs 11920 … 11983, targets 11921 … 11984
//     rank 0, step 2: inputs 10576 … 10639, targets 10577 … 10640
//     resumed after step 1 of 10: inputs 10576 … 10639, targets 10577 … 10640
//     rank 1, step 1: inputs 10448 … 10511, targets 10449 … 10512
//     rank 1, step 2: inputs 10256 … 10319, targets 10257 … 10320
//     resumed after step 1 of 10: inputs 10256 … 10319, targets 10257 … 10320
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;

namespace {

constexpr std::int64_t kT = 64, kB = 4;  // tokens of a window, windows of a batch
constexpr int kRanks = 2;

std::string made_up_shard(std::uint16_t first, std::uint16_t count) {
  std::vector<std::uint16_t> file(512);  // the header: 256 int32
  const std::int32_t header[] = {20240520, 1, count};
  std::memcpy(file.data(), header, sizeof(header));
  for (std::uint16_t i = 0; i < count; ++i) file.push_back(first + i);
  return {reinterpret_cast<const char*>(file.data()), sizeof(file[0]) * file.size()};
}

ps::Dataset made_up_windows() {
  ps::TokenShardsOptions options;
  options.files = ps::make_memory_file_system(
      {{"a.bin", made_up_shard(0, 1000)}, {"b.bin", made_up_shard(10000, 2000)}});
  return ps::token_shards({"a.bin", "b.bin"}, kT, options);
}

// The inputs of a window are tokens[0 … T-1], the targets tokens[1 … T].
std::string first_window(const ps::StagedBatch& batch) {
  batch.synchronize();  // a stream of the model calls batch.wait(stream)
  const auto* const tokens = reinterpret_cast<const std::int32_t*>(batch["tokens"].data);
  const auto range = [&](std::int64_t first) {
    return std::to_string(tokens[first]) + " … " + std::to_string(tokens[first + kT - 1]);
  };
  return "inputs " + range(0) + ", targets " + range(1);
}

}  // namespace

int main(int argc, char** argv) try {
  const ps::Dataset windows =
      argc > 1 ? ps::token_shards({argv + 1, argv + argc}, kT) : made_up_windows();
  std::printf("%s, %lld windows\n", windows.spec().to_string().c_str(),
              static_cast<long long>(windows.cardinality()));
  const ps::FeedOptions options{.run = {.seed = 42, .epochs = 2}};
  for (int rank = 0; rank < kRanks; ++rank) {  // each a process of its own
    const ps::Dataset batches = windows.shuffle().shard(kRanks, rank).batch(kB);
    ps::Feed feed(batches, ps::devices("host:0"), options);
    std::string state;
    int steps = 0;
    while (!feed.ended(0)) {
      const auto batch = feed.next(0);
      if (!batch) continue;  // the end of an epoch
      if (++steps > 2) continue;
      std::printf("rank %d, step %d: %s\n", rank, steps, first_window(*batch).c_str());
      if (steps == 1) state = feed.save();
    }
    if (steps < 2) continue;
    ps::Feed resumed = ps::Feed::restore(state, batches, ps::devices("host:0"), options);
    std::printf("resumed after step 1 of %d: %s\n", steps, first_window(*resumed.next(0)).c_str());
  }
} catch (const ps::Error& error) {
  std::fprintf(stderr, "llm_tokens: %s\n", error.what());
  return 1;
}
