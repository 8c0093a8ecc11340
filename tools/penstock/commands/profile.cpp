#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

#include <unistd.h>

#include <penstock/state_file.h>

#include "pipelines/remote.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "report/trace.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/choose.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/run/profile.h"
#include "tools/penstock/run/towers.h"
#include "tools/penstock/shards/find_source.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/flags.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

/// Returns a seed of 32 bits, which every JSON reader keeps exactly.
std::uint64_t random_seed() {
  std::random_device device;
  return device();
}

class Profile final : public Command {
 public:
  explicit Profile(CLI::App& program)
      : Command(program, "profile", "run a pipeline and report what limits it",
                "penstock profile --images photos --shuffle --random-resized-crop 224 --flip \\\n"
                "      --normalize --batch 64 --epochs 3"),
        flags_(*app(), "default: random, and printed", find_source) {
    const std::string group = "Output";
    app()
        ->add_flag("--digest", options_.digest,
                   "compute a digest of everything delivered (with --device: only one device)")
        ->group(group);
    app()
        ->add_option("--digests", options_.digests_file,
                     "write a line `epoch batch elements digest` for each batch")
        ->type_name("FILE")
        ->group(group);
    CLI::Option* state =
        app()
            ->add_option("--state", options_.state_file,
                         "resume from this file, or object on s3://, if it exists, and "
                         "save the position there; without --device, it needs --digests, and "
                         "truncates that file to the saved position")
            ->type_name("FILE|URL")
            ->group(group);
    app()
        ->add_option("--save-every", options_.save_every,
                     "save every K batches (default 100), and also at SIGTERM and at the end")
        ->needs(state)
        ->check(above_zero())
        ->type_name("K")
        ->group(group);
    app()
        ->add_option(
            "--resume-from", options_.resume_from,
            "if the file of --state does not exist yet: resume from the states of all consumers of "
            "a run that stopped at the same step, with another number of consumers (--shard)")
        ->needs(state)
        ->type_name("FILE...")
        ->group(group);
    app()
        ->add_option("--dump", dump_, "write the first N images, as the trainer would see them")
        ->expected(2)
        ->type_name("N DIR")
        ->group(group);
    app()
        ->add_option("--json", json_, "write the report as JSON (-: to stdout)")
        ->type_name("FILE")
        ->group(group);
    app()
        ->add_option("--html", html_, "write the report as a page for a browser")
        ->type_name("FILE")
        ->group(group);
    app()
        ->add_option("--trace", trace_,
                     "write a timeline of threads and towers, for Perfetto or chrome://tracing")
        ->type_name("FILE")
        ->group(group);
    app()
        ->add_option(
            "--seconds", options_.limit_s,
            "stop after this long; if opening the data alone takes that long, exit with code 75")
        ->check(above_zero())
        ->type_name("S")
        ->group(group);
    app()
        ->add_option("--watchdog", options_.watchdog_s,
                     "give up (exit code 75) after this long without a batch")
        ->check(above_zero())
        ->type_name("S")
        ->group(group);
    add_towers();
    app()
        ->add_flag("--quiet", options_.quiet, "no live view and no report; only errors")
        ->group(group);
  }

  int run() override {
    const PipelineSpec spec = flags_.finish();
    std::vector<std::string> made;
    if (!dump_.empty()) made.push_back(dump_.at(1));
    check_distinct(outputs_of(spec));
    for (const std::string& path : {json_, html_, trace_}) check_output(path, made);
    use_remote(spec.run);
    std::optional<StateFile> state;
    if (!options_.state_file.empty()) {
      options_.state = &state.emplace(options_.state_file);
      state->check();
    }
    options_.seed = random_seed();
    if (!options_.state_file.empty() && options_.devices.empty() && options_.digests_file.empty())
      throw UsageError("--state requires --digests");
    std::error_code absent;
    const auto digests = std::filesystem::status(options_.digests_file, absent);
    if (options_.state != nullptr && exists(digests) && !is_regular_file(digests))
      throw UsageError("must be a regular file, so that --state can resume it", "--digests");
    if (leaves_work_to_device(spec) && options_.devices.empty())
      throw UsageError("needs --device, where the images are decoded", "--on-device");
    if (max_bytes_.empty()) max_bytes_ = leaves_work_to_device(spec) ? "64MiB" : "1MiB";
    options_.feed.max_bytes = bytes_of(max_bytes_, "--max-bytes");
    if (!device_memory_.empty())
      options_.feed.device_memory = bytes_of(device_memory_, "--device-memory");
    if (!dump_.empty()) {
      const std::int64_t count = parse_dump_count();
      options_.dump_count = static_cast<std::uint64_t>(count);
      options_.dump_folder = dump_.at(1);
    }
    // With a state file, the position is not lost. So the exit code after SIGTERM tells a scheduler
    // that preempts the machine that all is well.
    Interrupts interrupts(options_.state_file.empty() ? kTerminated : kOk);
    if (!trace_.empty()) begin_trace();
    const Report report = options_.devices.empty() ? run_profile(spec, options_, interrupts)
                                                   : run_towers(spec, options_, interrupts);
    print(report, spec);
    if (report.ending == Ending::no_progress) {
      if (report.failure) print_error(report.failure->what());
      std::fflush(nullptr);
      _exit(kNoProgress);
    }
    return exit_code(report, interrupts);
  }

 private:
  void add_towers() {
    const std::string group = "Towers";
    CLI::Option* device =
        app()
            ->add_option(
                "--device", options_.devices,
                "simulate a tower on each of these devices, with steps of --step-ms: host:0,host:1")
            ->type_name("LIST")
            ->group(group);
    for (const char* other : {"--digests", "--dump"}) device->excludes(app()->get_option(other));
    const auto add = [&](const char* flag, auto& value, const char* help) {
      return app()->add_option(flag, value, help)->needs(device)->group(group);
    };
    choose_feed_mode(add("--feed", options_.feed.mode, "split, per_tower (default) or sharded")
                         ->type_name("MODE"));
    choose_epoch_end(add("--epoch-end", options_.feed.end, "drop (default), pad, wrap or stop")
                         ->type_name("POLICY"));
    choose<bool>(add("--pace", options_.feed.in_turn,
                     "step (default): towers get their batches in turn; free: a tower gets one as "
                     "soon as it has room")
                     ->type_name("PACE"),
                 {{"step", true}, {"free", false}});
    add("--device-slots", options_.feed.slots, "batches on each device at once (default 2)")
        ->check(CLI::Range(1, 64))
        ->type_name("N");
    add("--max-bytes", max_bytes_,
        "space in each slot for a component of unknown size, such as text (default 1MiB; with "
        "--on-device 64MiB)")
        ->type_name("BYTES");
    add("--device-memory", device_memory_, "memory limit of each tower's slots, such as 64MiB")
        ->type_name("BYTES");
  }

  /// Returns all files that a run writes, with the flags that name them.
  std::vector<Output> outputs_of(const PipelineSpec& spec) const {
    std::vector<Output> outputs{{"--state", options_.state_file},
                                {"--digests", options_.digests_file},
                                {"--json", json_},
                                {"--html", html_},
                                {"--trace", trace_},
                                {"--quarantine", spec.run.get("quarantine", std::string())}};
    if (!options_.state_file.empty())
      for (const std::string& path : companions_of_state(options_.state_file))
        outputs.push_back({"a file of --state", path});
    if (!dump_.empty()) outputs.push_back({"--dump", dump_.at(1)});
    for (const Settings& stage : spec.stages)
      if (const std::string& file = stage.kind().output; !file.empty())
        outputs.push_back({stage.kind().flag(), stage.get(file, std::string())});
    return outputs;
  }

  static std::uint64_t bytes_of(const std::string& text, const std::string& flag) {
    try {
      return static_cast<std::uint64_t>(parse_bytes(text));
    } catch (const UsageError& error) {
      throw error.at(flag);
    }
  }

  std::int64_t parse_dump_count() const {
    try {
      const std::int64_t count = parse_integer(dump_.at(0));
      if (count < 1) throw UsageError("must be at least 1");
      return count;
    } catch (const UsageError& error) {
      throw error.at("--dump");
    }
  }

  void print(const Report& report, const PipelineSpec& spec) const {
    if (!options_.quiet) {
      std::FILE* stream = json_ == "-" || html_ == "-" ? stderr : stdout;
      const TerminalTraits traits = traits_of(stream);
      const std::string text = report_text(report, traits.colour, traits.width);
      std::fwrite(text.data(), 1, text.size(), stream);
      std::fflush(stream);
    }
    if (!json_.empty()) write_output(json_, report_json(report, to_toml(spec)));
    if (!html_.empty())
      write_output(html_, report_html(report, {"penstock profile", title_of(spec), {}, {}}));
    if (!trace_.empty()) write_output(trace_, report_trace(report));
  }

  int exit_code(const Report& report, const Interrupts& interrupts) const {
    switch (report.ending) {
      case Ending::running:
      case Ending::finished:
      case Ending::batch_limit:
        return judged(report.stats.errors);
      case Ending::interrupted:
        return interrupts.received() != 0 ? interrupts.exit_code() : kFailed;
      case Ending::no_progress:
        return kNoProgress;
      case Ending::device_lost:
        if (report.failure) print_error(report.failure->what());
        return kDeviceLost;
      case Ending::failed:
        break;
    }
    if (report.failure) print_error(report.failure->what());
    return kFailed;
  }

  PipelineFlags flags_;
  ProfileOptions options_;
  std::vector<std::string> dump_;
  std::string device_memory_;
  std::string max_bytes_;
  std::string json_;
  std::string html_;
  std::string trace_;
};

}  // namespace

std::unique_ptr<Command> make_profile(CLI::App& program) {
  return std::make_unique<Profile>(program);
}

}  // namespace penstock::tool
