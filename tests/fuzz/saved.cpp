// What Penstock wrote itself, and somebody may have changed: offset indices and saved positions.
#include <array>
#include <cstring>

#include <penstock/dataset.h>
#include <penstock/internal/crc32c.h>
#include <penstock/iterator.h>
#include <penstock/sources.h>

#include "pipeline/sources/index_file.h"
#include "pipeline/stage/fingerprint.h"
#include "tests/fuzz/support.h"
#include "tests/support/files.h"
#include "tests/support/kept_index.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock::fuzz {
namespace {

constexpr ShardContents kShard{.size = 1000, .hash = 7};

std::string checksum(const std::string& bytes) {
  return test::little_endian(crc32c(std::as_bytes(std::span(bytes))));
}

const test::TempFolder& folder() {
  static const test::TempFolder folder;
  return folder;
}

std::string head_of(const ShardContents& shard, const std::string& kind) {
  return "PNSTIDX2" + test::little_endian(shard.size) + test::little_endian(shard.hash) +
         test::little_endian(std::uint64_t{kind.size()}) + kind;
}

/// A source whose index is kept.
struct Indexed {
  std::function<SourcePtr()> make;
  ShardContents contents;
  std::string kept{};  ///< file of folder()
  std::string kind{};
};

template <typename Options>
Indexed indexed_by(SourcePtr (*make)(const Paths&, const Options&), const std::string& name,
                   const std::string& contents) {
  Options options;
  options.files = make_memory_file_system({{name, contents}});
  options.index_folder = folder().path();
  options.limits = small_limits();
  Indexed indexed{[make, name, options] { return make({name}, options); },
                  test::shard_contents(*options.files, name)};
  (void)indexed.make();
  const std::string path = test::kept_index(name, options.files->info(name), folder().path());
  indexed.kept = base_name(path);
  indexed.kind = test::kind_of_index(path);
  return indexed;
}

std::span<const Indexed> indexed_sources() {
  using namespace test;
  static const std::string large(kIndexedBytes, 'x');
  static const std::array kSources = {
      indexed_by(make_tfrecord_source, "t", tfrecords_of({"a", "", "bcd"}) + large),
      indexed_by(make_tar_source, "w",
                 tar_member("a/1.jpg", "1") + tar_member("a/1.txt", "one") +
                     tar_member("b/2.txt", "two") + tar_member("b/2.jpg", "2") + large),
      indexed_by(make_csv_source, "c", "x,y\n1,2\n\"a\nb\",c\n" + large)};
  return kSources;
}

/// Null: none.
const Indexed* indexed_of(const Input& input) {
  const unsigned number = input.options >> 1 & 3;
  return number == 0 ? nullptr : &indexed_sources()[number - 1];
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

const std::string kMagic = "penstock state 6\n";

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
  const Indexed* const indexed = framed ? indexed_of(input) : nullptr;
  const ShardContents shard = indexed != nullptr ? indexed->contents : kShard;
  const std::string kind = indexed != nullptr ? indexed->kind : "k";
  std::string file = (framed ? head_of(shard, kind) : "") + input.file;
  file += checksum(file);
  const std::string path = folder().write("index", file);
  const auto index = load_index(path, shard, {.kind = kind});
  if (!index) return;
  for (const IndexEntry& entry : index->entries)
    require(entry.offset <= shard.size && entry.size <= shard.size - entry.offset, "an entry");
  for (const IndexFault& fault : index->faults)
    require(fault.record < index->entries.size() && fault.lasting(), "a fault");
  if (indexed == nullptr) return;
  folder().write(indexed->kept, file);
  try {
    // Entries may overlap: each may be the whole shard.
    constexpr std::uint64_t kMostRecords = 4;
    read_indexed(*indexed->make(), kMostRecords, (kMostRecords + 1) * shard.size);
  } catch (const Error& error) {
    require_answer(error);
  }
}

std::vector<std::string> index_seeds() {
  ShardIndex index;
  index.entries = {{0, 10}, {10, 990}, {1000, 0}};
  index.faults = {{1, ErrorCode::data_loss, "cut"}, {2, ErrorCode::out_of_range, "long"}};
  index.notes = {"jpg", ""};
  const std::string path = folder() / "seed";
  require(save_index(path, kShard, "k", index), "an index can't be written");
  std::string file = test::read_file(path);
  file.resize(file.size() - 4);
  std::vector<std::string> seeds{with_options(0, ""), with_options(0, file),
                                 with_options(1, file.substr(8 + 8 + 8 + 9))};
  for (unsigned i = 0; i < indexed_sources().size(); ++i) {
    const Indexed& source = indexed_sources()[i];
    (void)source.make();  // what was left there may have been somebody's
    file = test::read_file(folder() / source.kept);
    file.resize(file.size() - 4);
    seeds.push_back(
        with_options(1 | (i + 1) << 1, file.substr(head_of(source.contents, source.kind).size())));
  }
  return seeds;
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
