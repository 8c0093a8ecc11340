#include <algorithm>
#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include <penstock/sources.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/memory_flag.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/shards/describe_element.h"
#include "tools/penstock/shards/open.h"
#include "tools/penstock/shards/pass.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes_of(const Element& element) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& tensor = element[i];
    if (tensor.dtype() != DType::bytes) {
      bytes += tensor.nbytes();
    } else {
      for (std::int64_t k = 0; k < tensor.volume(); ++k) bytes += tensor.bytes_at(k).size();
    }
  }
  return bytes;
}

/// The results of a pass over all records.
struct Census {
  std::uint64_t records = 0;
  std::uint64_t bad = 0;
  std::uint64_t bytes = 0, least = UINT64_MAX, most = 0;
  std::map<std::int64_t, std::uint64_t> classes;
};

class Inspect final : public Command {
 public:
  explicit Inspect(CLI::App& program)
      : Command(program, "inspect", "show what is in shards",
                "penstock inspect 'train-*.tfrecord' --records 2\n"
                "  penstock inspect photos --classes") {
    app()->add_option("PATH", paths_, "files, folders or patterns")->required();
    app()
        ->add_option("--records", shown_, "show the first N records of each shard (default 3)")
        ->check(CLI::Range(0, 1'000'000))
        ->type_name("N");
    app()->add_flag("--hidden", hidden_, "include hidden files, folders and tar members");
    app()->add_flag("--classes", classes_, "read all records: sizes, and how many have each label");
    memory_.add_to(*app());
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
  }

  int run() override {
    Interrupts interrupts;
    check_output(json_);
    static_cast<void>(memory_.bytes());  // refused before anything is read
    Json all = Json::array();
    int code = kOk;
    for (const std::string& path : paths_) {
      try {
        const Shards shards = find_shards(path, hidden_);
        for (const Shard& shard : shards.found) {
          if (interrupts.received() != 0) break;
          try {
            all.push_back(inspect(shard, interrupts));
          } catch (const Error& error) {
            print_error(error.what());
            code = kFailed;
          }
        }
        if (shards.skipped.count() > 0) print(printable(path) + ": " + shards.skipped.text());
      } catch (const Error& error) {
        print_error(error.what());
        code = kFailed;
      }
    }
    if (!json_.empty())
      write_output(json_, all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return interrupts.received() != 0 ? interrupts.exit_code() : code;
  }

 private:
  void print(const std::string& text) const {
    if (json_ == "-") return;
    std::fprintf(stdout, "%s\n", text.c_str());
    std::fflush(stdout);
  }

  Json inspect(const Shard& shard, Interrupts& interrupts) const {
    const Dataset dataset = open_shard(shard, hidden_);
    std::string head = printable(shard.path) + ": " + std::string(name_of(shard.format));
    if (shard.format != Format::folder)
      head += ", " + human_bytes(static_cast<double>(shard.bytes));
    print(head);
    const std::int64_t count = dataset.cardinality();
    print(
        "  " +
        (count < 0 ? "? records" : plural(static_cast<std::uint64_t>(count), "record", "records")) +
        " of " + printable(dataset.spec().to_string()));
    Json json{{"path", shard.path},
              {"format", name_of(shard.format)},
              {"bytes", shard.bytes},
              {"records", count >= 0 ? Json(count) : Json(nullptr)},
              {"spec", dataset.spec().to_string()}};
    const std::vector<std::string> names = class_names(dataset);
    if (!names.empty()) {
      print("  " + plural(names.size(), "class", "classes") + ": " + some_of(names));
      json["class_names"] = names;
    }
    if (shown_ > 0) json["first"] = show_first(dataset);
    if (classes_) {
      const Census census = take_census(shard, interrupts);
      print_census(census, names);
      json["census"] = census_json(census);
    }
    return json;
  }

  static std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 8;
    std::vector<std::string> shown;
    for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i)
      shown.push_back(printable(names[i]));
    return join(shown, ", ") + (names.size() > kMost ? ", …" : "");
  }

  Json show_first(const Dataset& dataset) const {
    Json records = Json::array();
    Iterator iterator = dataset.take(shown_).iterate({.memory_bytes = memory_.bytes()});
    std::size_t index = 0;
    for (; Next next = iterator.next(); ++index) {
      const std::string text =
          next.has_value() ? describe_element(*next) : "bad: " + printable(next.error().what());
      print("  " + std::to_string(index) + ": " + text);
      records.push_back(text);
    }
    return records;
  }

  Census take_census(const Shard& shard, Interrupts& interrupts) const {
    Census census;
    PassOptions options;
    options.title = "penstock inspect · " + shard.path;
    options.memory_bytes = memory_.bytes();
    const Dataset samples = open_samples(shard, hidden_);
    const PassResult result = skip(samples, options, interrupts, [&](const Element& element) {
      const std::uint64_t bytes = bytes_of(element);
      census.bytes += bytes;
      census.least = std::min(census.least, bytes);
      census.most = std::max(census.most, bytes);
      if (element.has("label") && element["label"].dtype() == DType::i64 &&
          element["label"].rank() == 0)
        ++census.classes[element["label"].item<std::int64_t>()];
    });
    census.records = result.good;
    census.bad = result.bad;
    return census;
  }

  void print_census(const Census& census, const std::vector<std::string>& names) const {
    const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
    if (census.bad > 0) print("  " + plural(census.bad, "bad record", "bad records"));
    if (census.records == 0) return;
    print("  " + plural(census.records, "good record", "good records") + ": " +
          bytes(census.bytes) + "; " + bytes(census.least) + " to " + bytes(census.most) +
          ", mean " + bytes(census.bytes / census.records));
    std::uint64_t most = 1;
    for (const auto& [label, count] : census.classes) most = std::max(most, count);
    const bool colour = traits_of(stdout).colour;
    for (const auto& [label, count] : census.classes) {
      const bool named = label >= 0 && static_cast<std::size_t>(label) < names.size();
      const std::string name = named ? " " + printable(names[static_cast<std::size_t>(label)]) : "";
      const double share = static_cast<double>(count) / static_cast<double>(most);
      print("  " + pad(fit(std::to_string(label) + name, 28), 28) + pad(grouped(count), 11, true) +
            "  " + paint(Colour::cyan, bar(share, 30), colour));
    }
  }

  static Json census_json(const Census& census) {
    Json json{{"good", census.records},
              {"bad", census.bad},
              {"bytes", census.bytes},
              {"least_bytes", census.records > 0 ? census.least : 0},
              {"most_bytes", census.most}};
    json["classes"] = Json::object();
    for (const auto& [label, count] : census.classes)
      json["classes"][std::to_string(label)] = count;
    return json;
  }

  MemoryFlag memory_;
  std::vector<std::string> paths_;
  std::int64_t shown_ = 3;
  bool classes_ = false;
  bool hidden_ = false;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> make_inspect(CLI::App& program) {
  return std::make_unique<Inspect>(program);
}

}  // namespace penstock::tool
