#include "tests/crash/graphs.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "tests/support/deflate.h"
#include "tests/support/files.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock::test {
namespace {

constexpr int kShards = 3;
constexpr int kPerShard = 60;

/// "17:" and some bytes.
std::string record(int id) {
  return std::to_string(id) + ":" + noise(20 + static_cast<std::size_t>(id * 37 % 300), id + 1U);
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string shard_name(const std::string& folder, int shard, const std::string& extension) {
  return folder + "/part-" + std::to_string(shard) + extension;
}

/// {id, noise, data} of records that begin with their number, whatever component holds them.
Dataset tagged(const Dataset& records, const std::string& component) {
  return records.map(
      [component](Element in, Rng& rng) {
        const std::string_view text = in[component].bytes_at();
        Element out;
        out.set("id",
                Tensor::scalar<std::int64_t>(std::strtoll(std::string(text).c_str(), nullptr, 10)));
        out.set("noise",
                Tensor::scalar<std::int64_t>(static_cast<std::int64_t>(rng.below(1U << 30))));
        out.set("data", in[component]);
        return out;
      },
      {.name = "tag",
       .output = Spec({{"id", DType::i64, Shape()},
                       {"noise", DType::i64, Shape()},
                       {"data", DType::bytes, Shape()}})});
}

/// {id, noise} of numbers.
Dataset counted(const Dataset& numbers, const std::string& component = "value") {
  return numbers.map(
      [component](Element in, Rng& rng) {
        Element out;
        out.set("id", in[component]);
        out.set("noise",
                Tensor::scalar<std::int64_t>(static_cast<std::int64_t>(rng.below(1U << 30))));
        return out;
      },
      {.name = "count",
       .output = Spec({{"id", DType::i64, Shape()}, {"noise", DType::i64, Shape()}})});
}

std::int64_t id_of(const Element& element) {
  return element["id"].item<std::int64_t>();
}

/// Every eleventh element is bad.
Dataset damaged(const Dataset& elements) {
  return elements.map(
      [](Element element) {
        if (id_of(element) % 11 == 5) throw std::runtime_error("a bad element");
        return element;
      },
      {.name = "damaged"});
}

}  // namespace

void write_crash_data(const std::string& folder) {
  for (int shard = 0; shard < kShards; ++shard) {
    std::vector<std::string> records;
    std::string tar;
    std::string csv = "id,word\n";
    for (int id = shard * kPerShard; id < (shard + 1) * kPerShard; ++id) {
      records.push_back(record(id));
      tar += tar_member("sample-" + std::to_string(1000 + id) + ".txt", records.back());
      csv += std::to_string(id) + ",\"word, " + std::to_string(id * id) + "\"\n";
    }
    write(shard_name(folder, shard, ".tfrecord"), tfrecords_of(records));
    write(shard_name(folder, shard, ".tfrecord.gz"), gzip(tfrecords_of(records)));
    write(shard_name(folder, shard, ".tar"), tar + tar_end());
    write(shard_name(folder, shard, ".csv"), csv);
  }
}

std::vector<CrashGraph> crash_graphs(const std::string& folder) {
  const auto tfrecords = [folder](const std::string& io) {
    TFRecordOptions options;
    options.files = make_file_system(io);
    return tagged(tfrecord({folder + "/part-*.tfrecord"}, options), "record");
  };
  const auto shuffled = [folder](ShuffleOptions options) {
    return tagged(tfrecord({folder + "/part-*.tfrecord"}).shuffle(options), "record");
  };
  const auto gzipped = [folder] { return tfrecord({folder + "/part-*.tfrecord.gz"}); };
  const auto tars = [folder] { return tar({folder + "/part-*.tar"}); };
  const auto lines = [folder] { return text_lines({folder + "/part-*.csv"}); };
  const auto rows = [folder] {
    CsvOptions options;
    options.columns = {{"id", DType::i64, {}}, {"word", DType::bytes, {}}};
    return csv({folder + "/part-*.csv"}, options);
  };
  const auto odd = [](const Element& element) { return id_of(element) % 2 == 1; };
  return {
      {"tfrecord", [=] { return tfrecords("pread").batch(4); }},
      {"tfrecord, perfect shuffle, shard",
       [=] { return shuffled({}).shard(2, 1).batch(3, {.drop_remainder = true}); }},
      {"tfrecord by io_uring", [=] { return tfrecords("io_uring").shuffle().batch(5); }},
      {"tfrecord by mmap, contiguous shard",
       [=] { return tfrecords("mmap").shard(2, 0, {.contiguous = true}).batch(3); }},
      {"gzip stream, buffered shuffle, shard",
       [=] { return tagged(gzipped().shard(2, 1).shuffle({.buffer = 16}), "record").batch(3); }},
      {"gzip stream, repeated, single elements",
       [=] { return tagged(gzipped().take(40).repeat(2), "record"); }},
      {"tar, buffered shuffle, repeated, batches across passes",
       [=] { return tagged(tars().shuffle({.buffer = 50}).repeat(2), "txt").batch(7); }},
      {"tar, shard behind the shuffle",
       [=] { return tagged(tars().shuffle().shard(3, 2), "txt").batch(2); }},
      {"lines, padded batches",
       [=] { return tagged(lines().shard(2, 0), "line").padded_batch(4); }},
      {"csv, filtered by value",
       [=] { return counted(rows(), "id").filter(odd).shuffle({.buffer = 9}).batch(3); }},
      {"numbers, unbatched and batched again",
       [=] { return counted(range(200).shuffle()).batch(7).unbatch().batch(5); }},
      {"numbers, cached",
       [=] { return counted(range(60)).cache().repeat(3).shuffle({.buffer = 8}).batch(4); }},
      {"interleaved",
       [=] {
         const Spec spec({{"value", DType::i64, Shape()}});
         const auto make = [](const Element& e) {
           const auto first = 10 * e["value"].item<std::int64_t>();
           return range(first, first + 10);
         };
         return counted(range(15).shuffle().interleave(make, spec, {.cycle = 4, .block = 3}))
             .batch(4);
       }},
      {"sampled from two",
       [=] {
         return counted(sample_from({range(100).shuffle(), range(1000, 1060)}, {0.6, 0.4}))
             .batch(4);
       }},
      {"zipped",
       [=] {
         return zip({counted(range(120).shuffle()), range(1000).skip(7)}).batch(3);
       }},
      {"bad elements in their places", [=] { return damaged(shuffled({})).batch(4); }},
      {"bad elements skipped", [=] { return damaged(shuffled({.buffer = 20})).batch(4); },
       OnError::skip},
      {"bad elements skipped, then a shard",
       [=] { return damaged(tagged(gzipped(), "record")).filter(odd).shard(2, 1).batch(2); },
       OnError::skip},
  };
}

}  // namespace penstock::test
