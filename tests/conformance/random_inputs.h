// Data for random graphs: streams, sources of every format, images and nested datasets, with
// damaged records and with reads that fail at first.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/image.h>
#include <penstock/internal/crc32c.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "pipeline/io/memory.h"
#include "tests/conformance/sources.h"
#include "tests/support/hooked_files.h"
#include "tests/support/images.h"
#include "tests/support/numbers.h"

namespace penstock::test::graphs {

/// A random graph, and the options that it needs.
struct RandomGraph {
  Dataset dataset;
  std::string text{};
  RunOptions options{};

  void skip_errors() {
    options.on_error = OnError::skip;
    options.max_error_share = 1;
  }
};

/// Returns a checksum of an element's values.
inline std::uint32_t checksum(const Element& element) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor dense = element[i].contiguous() ? element[i] : element[i].clone();
    const std::string_view bytes =
        dense.dtype() == DType::bytes
            ? dense.bytes_at()
            : std::string_view(reinterpret_cast<const char*>(dense.data()), dense.nbytes());
    sum = 31 * sum + crc32c(as_bytes(bytes));
  }
  return sum;
}

/// Makes each element {x: i64}, a number below 60 that depends on all of its values.
inline Dataset number_of(const Dataset& input) {
  const auto number = [](const Element& in, Element& out, Rng&) {
    out["x"].mutable_values<std::int64_t>()[0] = checksum(in) % 60;
  };
  return input.map(number, {.output = x_spec()});
}

/// Returns a file system whose reads fail now and then, once `begun` is set.
inline FileSystemPtr that_fails(FileSystemPtr files, std::shared_ptr<std::atomic<bool>> begun) {
  const auto reads = std::make_shared<std::atomic<std::uint64_t>>(0);
  return std::make_shared<HookedFiles>(
      std::move(files), [begun = std::move(begun), reads](const std::string&, const ReadRequest&) {
        if (*begun && Rng(7, (*reads)++, 0).coin(0.2))
          return Status(Error(ErrorCode::unavailable, "try again"));
        return Status();
      });
}

/// Returns a file system that is read into buffers, not viewed.
inline FileSystemPtr that_is_read(FileSystemPtr files) {
  const auto succeed = [](const std::string&, const ReadRequest&) { return Status(); };
  return std::make_shared<HookedFiles>(std::move(files), succeed);
}

/// The records of a source of the suite of sources, except for a user's: where a run of that stands
/// is not known (docs/budget.md).
inline void add_records(RandomGraph& graph, Rng& rng) {
  static const std::vector<SourceCase> all = [] {
    std::vector<SourceCase> cases = sources();
    std::erase_if(cases, [](const SourceCase& each) { return each.name == "generate"; });
    return cases;
  }();
  const SourceCase& chosen = all[rng.below(all.size())];
  SourceInput input;
  const std::uint64_t count = 5 + rng.below(40);
  for (std::uint64_t i = 0; i < count; ++i) input.records.push_back(chosen.record(i));
  graph.text += std::to_string(count) + " records of " + chosen.name;
  if (chosen.damage && rng.coin(0.3)) {
    input.bad = rng.below(count);
    graph.skip_errors();
    graph.text += ", bad " + std::to_string(input.bad);
  }
  const auto files = std::make_shared<MemoryFileSystem>();
  const auto begun = std::make_shared<std::atomic<bool>>(false);
  input.files = that_is_read(files);
  if (chosen.files) {
    for (const auto& [path, bytes] : chosen.files(input.records, input.bad)) {
      files->add(path, bytes);
      input.paths.push_back(path);
    }
    if (rng.coin(0.3)) {
      input.files = that_fails(files, begun);
      graph.options.retries = 1000;
      graph.options.retry_ms = 0;
      graph.text += ", read again";
    }
  }
  graph.dataset = chosen.open(input);
  *begun = true;
}

struct NamedImage {
  std::string name;
  std::string bytes;
};

/// JPEGs with one scan and progressive ones, in color and gray, of many sizes.
inline const std::vector<NamedImage>& some_jpegs() {
  static const std::vector<NamedImage> images = [] {
    std::vector<NamedImage> made;
    Rng rng(3, 0, 0);
    for (int i = 0; i < 24; ++i) {
      const auto side = [&] { return 8 + static_cast<int>(rng.below(i % 6 == 0 ? 300 : 80)); };
      const int factor = 1 + i % 2;
      const std::vector<std::byte> bytes =
          make_jpeg(make_pixels(side(), side(), i % 5 == 0 ? 1 : 3, static_cast<unsigned>(i)),
                    {.horizontal = factor, .vertical = factor, .progressive = i % 4 < 2});
      made.push_back({std::to_string(i), std::string(as_text(bytes))});
    }
    return made;
  }();
  return images;
}

/// Images, decoded and resized, of which some may be damaged.
inline void add_images(RandomGraph& graph, Rng& rng) {
  const std::uint64_t count = 3 + rng.below(20);
  const bool some_bad = rng.coin(0.3);
  if (some_bad) graph.skip_errors();
  std::string archive;
  for (std::uint64_t i = 0; i < count; ++i) {
    const NamedImage& image = some_jpegs()[rng.below(some_jpegs().size())];
    const bool bad = some_bad && rng.coin(0.2);
    const std::string key = std::to_string(i) + "-" + image.name;
    archive += tar_member(key + ".jpg", image.bytes.substr(0, bad ? image.bytes.size() / 2 : -1)) +
               tar_member(key + ".cls", "3");
  }
  const auto files = std::make_shared<MemoryFileSystem>();
  files->add("images.tar", archive + tar_end());
  TarOptions options;
  options.files = that_is_read(files);
  options.index_folder = "-";
  const ImageOps decoded = decode_image("image");
  const std::vector<std::pair<std::string, ImageOps>> ops{
      {"decoded", decoded},
      {"resized", decoded.resize(12)},
      {"cropped and resized", decoded.random_resized_crop(16).random_flip()},
      {"resized and cropped", decoded.resize_short(24).center_crop(16).normalize()},
      {"cropped", decoded.center_crop(20, 30)},
  };
  const auto& [name, op] = ops[rng.below(ops.size())];
  graph.dataset = tar({"images.tar"}, options);
  if (rng.coin(0.3)) graph.dataset = graph.dataset.shuffle({.seed = 4});
  graph.dataset = graph.dataset.map_op(op.op()).keep({"image"});
  graph.text += std::to_string(count) + " images, " + name + (some_bad ? ", some bad" : "");
}

/// Lines of a file, whose values share buffers.
inline void add_lines(RandomGraph& graph, Rng& rng) {
  const auto files = std::make_shared<MemoryFileSystem>();
  std::string lines;
  const std::uint64_t count = 5 + rng.below(100);
  for (std::uint64_t i = 0; i < count; ++i)
    lines += std::to_string(i) + std::string(rng.below(10) * rng.below(300), ' ') + "\n";
  files->add("lines", lines);
  FileOptions options;
  options.files = that_is_read(files);
  options.index_folder = "-";
  graph.dataset = text_lines({"lines"}, options);
  graph.text += std::to_string(count) + " lines";
}

/// Some columns of a table. A row keeps its line, also where no column of it is kept.
inline void add_table(RandomGraph& graph, Rng& rng) {
  const auto files = std::make_shared<MemoryFileSystem>();
  const std::uint64_t columns = 1 + rng.below(4);
  const std::uint64_t count = 5 + rng.below(100);
  const std::uint64_t widest = 1 + rng.below(120);
  const auto names = [](std::uint64_t i) { return std::string(1, static_cast<char>('a' + i)); };
  std::string lines;
  for (std::uint64_t row = 0; row <= count; ++row) {
    for (std::uint64_t i = 0; i < columns; ++i) {
      lines += i > 0 ? "," : "";
      lines += row == 0           ? names(i)
               : rng.coin(0.1)    ? "\"a \"\"" + std::to_string(row) + "\"\"\""
               : columns > 1 || i ? std::string(rng.below(widest), 'x')
                                  : std::to_string(row);
    }
    lines += "\n";
  }
  files->add("table.csv", lines);
  CsvOptions options;
  options.files = that_is_read(files);
  options.index_folder = "-";
  for (std::uint64_t i = 0; i < columns; ++i)
    if (i == 0 || rng.coin(0.5)) options.columns.push_back({.name = names(i)});
  graph.dataset = csv({"table.csv"}, options);
  graph.text += std::to_string(count) + " rows of a table, " +
                std::to_string(options.columns.size()) + " of " + std::to_string(columns) +
                " columns";
}

inline Dataset stream_of(std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return stream(values);
}

/// Datasets of datasets, down to streams or to texts.
inline void add_nested(RandomGraph& graph, Rng& rng) {
  const auto count = static_cast<std::int64_t>(2 + rng.below(6));
  const auto cycle = static_cast<int>(1 + rng.below(3));
  const bool texts = rng.coin(0.5);
  const auto inner = [texts](std::int64_t x) -> Dataset {
    if (!texts) return stream_of(1 + x % 5);
    const auto text = [x](const Element& e) {
      return std::string(static_cast<std::size_t>(100 * (x % 7) + e["x"].item<std::int64_t>()),
                         't');
    };
    return numbers(1 + x % 4)
        .map([](Element e) { return e; })
        .shuffle({.buffer = 2, .seed = 3})
        .map(text, {.adds = {{"text", DType::bytes, {}}}})
        .keep({"text"});
  };
  const Spec spec = texts ? Spec({{"text", DType::bytes, {}}}) : x_spec();
  const auto x_in = [](const Element& e) { return e["x"].item<std::int64_t>(); };
  const auto outer = [=](const Element& e) {
    const std::int64_t x = x_in(e);
    return numbers({x, x + 1, x + 2})
        .interleave([=](const Element& in) { return inner(x_in(in)); }, spec, {.cycle = cycle});
  };
  graph.dataset = numbers(count).interleave(outer, spec, {.cycle = 2, .block = 2});
  graph.text += std::to_string(count) + " datasets of datasets of " + (texts ? "texts" : "numbers");
}

/// Some stages for elements of any kind.
inline void add_plain_stages(RandomGraph& graph, Rng& rng) {
  // Rows of other values keep their slot. A stage that holds some then leaves no room for a batch,
  // and the run waits for 2 s before it says so.
  const auto keeps_no_slot = [](const Dataset& d) {
    return std::ranges::all_of(d.spec(), [](const ComponentSpec& component) {
      return component.dtype == DType::bytes || component.shape == Shape();
    });
  };
  const auto same = [](Element e) { return e; };
  const auto some = [](const Element& e) { return checksum(e) % 3 > 0; };
  const std::vector<std::pair<std::string, std::function<Dataset(const Dataset&)>>> stages{
      {"map", [&](const Dataset& d) { return d.map(same); }},
      {"filter", [&](const Dataset& d) { return d.filter(some); }},
      {"value shuffle", [&](const Dataset& d) { return d.map(same).shuffle({.buffer = 7}); }},
      {"cache", [](const Dataset& d) { return d.cache(); }},
      {"repeat", [](const Dataset& d) { return d.repeat(2); }},
      {"prefetch", [](const Dataset& d) { return d.prefetch(2); }},
      {"batches", [&](const Dataset& d) { return keeps_no_slot(d) ? d.batch(5).unbatch() : d; }},
      {"windows", [](const Dataset& d) { return d.window(4, {.shift = 3}).unbatch(); }},
  };
  for (std::uint64_t left = rng.below(4); left > 0; --left) {
    const auto& [name, build] = stages[rng.below(stages.size())];
    try {
      graph.dataset = build(graph.dataset);
    } catch (const Error&) {
      continue;  // such as batches of images of any size
    }
    graph.text += ", " + name;
  }
}

/// Returns elements {x: i64} of data of a random kind.
inline RandomGraph random_input(Rng& rng) {
  RandomGraph graph{numbers(0)};
  switch (rng.below(6)) {
    case 0:
      add_lines(graph, rng);
      break;
    case 1:
      add_records(graph, rng);
      break;
    case 2:
      add_images(graph, rng);
      break;
    case 3:
      add_nested(graph, rng);
      break;
    case 4:
      add_table(graph, rng);
      break;
    default:
      graph.dataset = stream_of(static_cast<std::int64_t>(5 + rng.below(60)));
      graph.text += "a stream of numbers";
  }
  add_plain_stages(graph, rng);
  if (rng.coin(0.3) && graph.dataset.spec().is_fixed_size()) {
    graph.dataset = graph.dataset.batch(3).unbatch();
    graph.text += ", in batches";
  }
  graph.dataset = number_of(graph.dataset);
  return graph;
}

}  // namespace penstock::test::graphs
