// What Penstock wrote itself, and somebody may have changed: offset indices and saved positions.
#include <array>
#include <cstring>

#include <penstock/dataset.h>
#include <penstock/iterator.h>

#include "pipeline/engine/fingerprint.h"
#include "pipeline/io/crc32c.h"
#include "pipeline/sources/index_file.h"
#include "tests/fuzz/support.h"
#include "tests/support/files.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"

namespace penstock::fuzz {
namespace {

constexpr FileInfo kShard{.size = 1000, .mtime_ns = 7, .inode = 1};

std::string checksum(const std::string& bytes) {
  return test::little_endian(crc32c(std::as_bytes(std::span(bytes))));
}

const test::TempFolder& folder() {
  static const test::TempFolder folder;
  return folder;
}

/// Stages of every way to keep a position.
std::span<const Dataset> graphs() {
  using test::numbers;
  static const auto keep = [](const Element& e) { return e[0].item<std::int64_t>() % 3 != 1; };
  static const auto nested = [](const Element& e) {
    return numbers(e[0].item<std::int64_t>() % 4);
  };
  static const auto renamed = [](const Element& e) { return Element({{"y", e[0]}}); };
  static const Spec y_spec({{"y", DType::i64, Shape()}});
  static const std::array kGraphs = {
      numbers(50).shuffle({.buffer = 7, .seed = 3}).batch(4),
      numbers(50).shuffle({.seed = 3}).shard(2, 1).repeat(3).take(40),
      numbers(30).filter(keep).skip(2).batch(3).unbatch(),
      numbers(9).flat_map(nested, test::x_spec()).enumerate(),
      numbers(12).interleave(nested, test::x_spec(), {.cycle = 3, .block = 2}).prefetch(2),
      sample_from({numbers(20), numbers(20).filter(keep)}, {0.3, 0.7}, {.seed = 2}).batch(2),
      numbers(10).cache().repeat(2).concatenate(numbers(3).take_while(keep)),
      zip({numbers(12), test::stream({1, 2, 3, 4, 5}).repeat(2).map(renamed, {.output = y_spec})})
          .shuffle({.buffer = 3, .seed = 1}),
  };
  return kGraphs;
}

const std::string kMagic = "penstock state 4\n";

/// All that is in front of a state's counts.
std::string head_of(const Dataset& graph) {
  StateWriter marks;
  Fingerprint(*graph.node()).save(marks);
  return kMagic + marks.bytes();
}

}  // namespace

void run_index(Bytes bytes) {
  const Input input(bytes);
  const bool framed = input.option(0);
  std::string file = framed ? "PNSTIDX1" + test::little_endian(kShard.size) +
                                  test::little_endian(kShard.mtime_ns) +
                                  test::little_endian(std::uint64_t{1}) + "k" + input.file
                            : input.file;
  file += checksum(file);
  const std::string path = folder().write("index", file);
  const auto index = load_index(path, kShard, "k");
  if (!index) return;
  for (const IndexEntry& entry : index->entries)
    require(entry.offset <= kShard.size && entry.size <= kShard.size - entry.offset, "an entry");
  for (const IndexFault& fault : index->faults)
    require(fault.record < index->entries.size() && !name_of(fault.code).empty(), "a fault");
}

std::vector<std::string> index_seeds() {
  ShardIndex index;
  index.entries = {{0, 10}, {10, 990}, {1000, 0}};
  index.faults = {{1, ErrorCode::data_loss, "cut"}, {2, ErrorCode::out_of_range, ""}};
  index.notes = {"jpg", ""};
  const std::string path = folder() / "seed";
  require(save_index(path, kShard, "k", index), "an index can't be written");
  std::string file = test::read_file(path);
  file.resize(file.size() - 4);
  return {with_options(0, ""), with_options(0, file), with_options(1, file.substr(8 + 8 + 8 + 9))};
}

void run_state(Bytes bytes) {
  const Input input(bytes);
  const Dataset& graph = graphs()[input.options & 7];
  std::string state = input.option(3) ? input.file : head_of(graph) + input.file;
  if (!input.option(4)) state += checksum(state);
  try {
    Iterator iterator = graph.restore(state, {.epochs = 2, .threads = 1, .memory_bytes = 1U << 20});
    for (int i = 0; i < 300; ++i) {
      const Next next = iterator.next();
      if (next.is_error()) require_answer(next.error());
      if (next.is_end() && !iterator.next_epoch()) break;
    }
    (void)iterator.save();
  } catch (const Error& error) {
    require_answer(error);
  }
}

std::vector<std::string> state_seeds() {
  std::vector<std::string> seeds{with_options(0, ""), with_options(24, kMagic)};
  for (unsigned i = 0; i < graphs().size(); ++i) {
    const Dataset& graph = graphs()[i];
    const std::string head = head_of(graph);
    for (const int taken : {0, 1, 5}) {
      Iterator iterator = graph.iterate({.seed = 9, .epochs = 2, .threads = 1});
      for (int k = 0; k < taken; ++k) (void)iterator.next();
      std::string state = iterator.save();
      require(state.starts_with(head), "a state begins otherwise than this file thinks");
      state.resize(state.size() - 4);
      seeds.push_back(with_options(i, state.substr(head.size())));
      seeds.push_back(with_options(i | 8, state));
    }
  }
  return seeds;
}

}  // namespace penstock::fuzz
