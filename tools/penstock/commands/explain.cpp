#include <cstdio>

#include <nlohmann/json.hpp>

#include <penstock/feed.h>
#include <penstock/image_codec.h>
#include <penstock/plan.h>
#include <penstock/simd.h>

#include "pipelines/kinds.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/run/profile.h"
#include "tools/penstock/shards/find_source.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/flags.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

Json spec_json(const Spec& spec) {
  Json json = Json::array();
  for (const ComponentSpec& component : spec)
    json.push_back({{"name", component.name},
                    {"dtype", name_of(component.dtype)},
                    {"shape", component.shape.to_string()}});
  return json;
}

class Explain final : public Command {
 public:
  explicit Explain(CLI::App& program)
      : Command(program, "explain",
                "print a pipeline's stages, their output, memory use and advice",
                "penstock explain --tar 'train-*.tar' --shuffle --random-resized-crop 224 \\\n"
                "      --normalize --batch 256"),
        flags_(*app(), "default: 0", find_source) {
    options_.limit_s = 5;
    app()
        ->add_flag("--toml", toml_, "print the pipeline as TOML instead, for --pipeline")
        ->group("Output");
    app()
        ->add_flag("--kinds", kinds_, "print every source and stage with its parameters, for TOML")
        ->group("Output");
    app()
        ->add_flag("--verbose", verbose_, "explain how each stage runs, and what it costs")
        ->group("Output");
    app()
        ->add_flag("--dot", dot_, "print the graph for Graphviz instead: ... --dot | dot -Tsvg")
        ->group("Output");
    app()
        ->add_flag("--analyze", analyze_, "run the pipeline for a few seconds and add measurements")
        ->group("Output");
    app()
        ->add_option("--seconds", options_.limit_s, "with --analyze: how long (default 5)")
        ->check(above_zero())
        ->type_name("S")
        ->group("Output");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE")
        ->group("Output");
  }

  int run() override {
    if (kinds_) {
      write_output("-", kinds_text());
      return kOk;
    }
    check_output(json_);
    const PipelineSpec spec = flags_.finish();
    if (toml_) {
      write_output("-", to_toml(spec));
      return kOk;
    }
    const RunOptions run = run_options(spec, 0);
    const Dataset dataset = build(spec);
    const Plan plan = compile(dataset, run);
    if (dot_) {
      write_output("-", plan.to_dot());
      return kOk;
    }
    const std::string everywhere = plan.rows() ? made_everywhere(dataset, run) : "";
    const std::string text = verbose_ ? verbose_text(plan, spec, everywhere) : plan.summary();
    if (json_ != "-") write_output("-", text.ends_with('\n') ? text : text + "\n");
    Json json{{"explain", text},
              {"spec", spec_json(dataset.spec())},
              {"cardinality", dataset.cardinality()},
              {"guarantee", name_of(dataset.guarantee())},
              {"made_by_every_process", everywhere.empty() ? Json(nullptr) : Json(everywhere)},
              {"pipeline", to_toml(spec)}};
    const int code = analyze_ ? analyze(spec, json) : int{kOk};
    if (!json_.empty())
      write_output(json_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return code;
  }

 private:
  /// `everywhere` is the reason why each of several training processes makes all batches; empty if
  /// each makes only its own.
  static std::string verbose_text(const Plan& plan, const PipelineSpec& spec,
                                  const std::string& everywhere) {
    std::string text = plan.to_string() + "JPEGs: " + describe_jpeg_backend() +
                       "\nSIMD: " + describe_simd() + "\n";
    if (reads_image_records(spec)) text += "image records: " + describe_record_decoding() + "\n";
    if (leaves_work_to_device(spec))
      text +=
          "on the device: coefficient records and baseline JPEGs are decoded there; all else is "
          "decoded on the host and normalised on the device\n";
    if (!plan.rows()) return text;
    text += everywhere.empty() ? "several processes: each makes the batches of its own towers\n"
                               : "several processes: each makes the batches of all towers, so N "
                                 "processes do N times the work, because " +
                                     everywhere + "\n";
    return text;
  }

  int analyze(const PipelineSpec& spec, Json& json) {
    Interrupts interrupts;
    const Report report = run_profile(spec, options_, interrupts);
    json["measured"] = Json::parse(report_json(report, to_toml(spec)));
    if (json_ != "-") {
      const TerminalTraits traits = traits_of(stdout);
      write_output("-", "\n" + report_text(report, traits.colour, traits.width));
    }
    if (report.failure && report.ending == Ending::failed) {
      print_error(report.failure->what());
      return kFailed;
    }
    return interrupts.received() != 0 ? interrupts.exit_code() : int{kOk};
  }

  PipelineFlags flags_;
  ProfileOptions options_;
  bool kinds_ = false;
  bool toml_ = false;
  bool verbose_ = false;
  bool dot_ = false;
  bool analyze_ = false;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> make_explain(CLI::App& program) {
  return std::make_unique<Explain>(program);
}

}  // namespace penstock::tool
