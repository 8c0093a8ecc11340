#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/determinism.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/shards/find_source.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/flags.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

class CheckDeterminism final : public Command {
 public:
  explicit CheckDeterminism(CLI::App& program)
      : Command(
            program, "check-determinism",
            "run a pipeline twice with different thread counts, and find the first difference",
            "penstock check-determinism --images photos --shuffle --random-resized-crop 224 \\\n"
            "      --batch 64 --epochs 2"),
        flags_(*app(), "default: 1", find_source) {
    app()
        ->add_option("--against", against_,
                     "threads of the second run (default: four times as many)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N")
        ->group("Output");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE")
        ->group("Output");
  }

  int run() override {
    check_output(json_);
    const PipelineSpec spec = flags_.finish();
    RunOptions one = run_options(spec, 1);
    if (one.threads == 0) one.threads = 1;
    RunOptions two = one;
    two.threads = against_ > 0 ? against_ : std::min(4 * one.threads, 256);
    std::vector<Prefix> prefixes;
    for (std::size_t n = 0; n <= spec.stages.size(); ++n) {
      PipelineSpec part = spec;
      part.stages.erase(part.stages.begin() + static_cast<std::ptrdiff_t>(n), part.stages.end());
      const Kind& last = n == 0 ? spec.source->kind() : spec.stages[n - 1].kind();
      prefixes.push_back({last.name + "[" + std::to_string(n) + "]", build(part)});
    }
    auto limit = static_cast<std::uint64_t>(spec.run.get("batches", std::int64_t{0}));
    if (limit == 0 && prefixes.back().dataset.cardinality() == kInfinite) limit = kOfInfinite;
    const DeterminismResult result = check_determinism(prefixes, one, two, limit);
    print(result, one, two);
    return result.first ? kFailed : kOk;
  }

 private:
  static constexpr std::uint64_t kOfInfinite = 1000;

  void print(const DeterminismResult& result, const RunOptions& one, const RunOptions& two) const {
    Json json{{"deterministic", !result.first},
              {"batches", result.batches},
              {"elements", result.elements},
              {"errors", result.errors},
              {"threads", {one.threads, two.threads}},
              {"seed", one.seed},
              {"first_difference", nullptr}};
    std::string text = plural(result.batches, "batch", "batches") + " of " +
                       plural(result.elements, "element", "elements") +
                       (result.batches == 1 ? " is the same with " : " are the same with ") +
                       std::to_string(one.threads) + " and " + std::to_string(two.threads) +
                       " threads";
    if (result.errors > 0)
      text += "; so are " + plural(result.errors, "error", "errors") + " of bad elements";
    if (result.first) {
      const Divergence& first = *result.first;
      json["first_difference"] = {{"epoch", first.epoch},
                                  {"batch", first.batch},
                                  {"component", first.component},
                                  {"stage", first.stage}};
      text = "the runs with " + std::to_string(one.threads) + " and " +
             std::to_string(two.threads) + " threads diverge at epoch " +
             std::to_string(first.epoch) + ", batch " + std::to_string(first.batch) +
             ", component " + first.component + ", stage " + first.stage;
    }
    if (result.first) {
      print_error(text);
    } else if (json_ != "-") {
      std::printf("%s\n", printable(text).c_str());
    }
    if (!json_.empty())
      write_output(json_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  PipelineFlags flags_;
  int against_ = 0;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> make_check_determinism(CLI::App& program) {
  return std::make_unique<CheckDeterminism>(program);
}

}  // namespace penstock::tool
