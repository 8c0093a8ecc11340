#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <penstock/iterator.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/remote_flags.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/terminal.h"
#include "tools/penstock/synth/synth.h"

namespace penstock::tool {
namespace {

class Synth final : public Command {
 public:
  explicit Synth(CLI::App& program)
      : Command(program, "synth", "write a synthetic data set, with faults on demand",
                "penstock synth photos --images 2000 --size 375x500\n"
                "  penstock synth shards --format tfrecord --shards 8 --corrupt 1% --fault crc"),
        remote_(*app()) {
    app()
        ->add_option("OUT", options_.folder, "folder to write to, also s3://BUCKET/… or gs://")
        ->required();
    app()
        ->add_option("--images", options_.count, "samples (default 1000)")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40))
        ->type_name("N");
    app()
        ->add_option("--format", options_.format,
                     "folder (default), tar, tfrecord, cifar10, idx or csv")
        ->type_name("NAME");
    app()
        ->add_option("--size", size_,
                     "height and width, or a range of them to draw from: 375x500, "
                     "100x100..600x800 (default 375x500)")
        ->type_name("HxW[..HxW]");
    app()
        ->add_option("--heavy-tail", options_.heavy_tail,
                     "vary the area of images by a log-normal factor with this sigma")
        ->check(CLI::Range(0.0, 4.0))
        ->type_name("SIGMA");
    app()
        ->add_option("--classes", options_.classes, "labels 0 to K-1 (default 10)")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("K");
    app()
        ->add_option("--shards", options_.shards, "number of files (default 1)")
        ->check(CLI::Range(1, 99'999))
        ->type_name("S");
    app()
        ->add_option("--quality", options_.quality, "JPEG quality (default 90)")
        ->check(CLI::Range(1, 100))
        ->type_name("1-100");
    app()->add_flag("--progressive", options_.progressive, "write progressive JPEGs");
    app()
        ->add_option("--compression", options_.compression, "tfrecord: gzip, zlib; idx: gzip")
        ->check(CLI::IsMember({"none", "gzip", "zlib"}))
        ->type_name("NAME");
    app()
        ->add_option("--seed", options_.seed, "the same seed gives the same bytes (default 0)")
        ->type_name("N");
    app()->add_option("--corrupt", corrupt_, "share of samples to damage: 1%")->type_name("P%");
    app()
        ->add_option("--fault", options_.faults,
                     "how to damage: truncate, tenth (cut to a tenth), flip, header, empty, "
                     "dimensions, scans, tables; "
                     "tfrecord: crc; cifar10: label; csv: field (default: all)")
        ->delimiter(',')
        ->type_name("NAME,...");
    app()
        ->add_option("--threads", options_.threads, "default: all")
        ->check(CLI::Range(1, kMostThreads))
        ->type_name("N");
    app()->add_flag("--force", options_.force, "write into a folder that is not empty");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
  }

  int run() override {
    Interrupts interrupts;
    check_output(json_, {options_.folder});
    remote_.choose();
    read_sizes();
    read_corrupt();
    // The range check of the option accepts NaN.
    if (std::isnan(options_.heavy_tail)) throw UsageError("must be a number", "--heavy-tail");
    if (options_.faults.size() > 0 && options_.corrupt_share == 0)
      throw UsageError("needs --corrupt", "--fault");
    const auto start = std::chrono::steady_clock::now();
    const TerminalTraits traits = traits_of(stderr);
    SynthResult result;
    {
      Canvas canvas(stderr);
      std::atomic<bool> stopped{false};
      const Cancellation cancellation(interrupts, [&] { stopped = true; });
      result = synthesise(options_, [&](std::uint64_t done) {
        if (!traits.interactive) return !stopped;
        const double share = static_cast<double>(done) / static_cast<double>(options_.count);
        const auto columns = static_cast<std::size_t>(std::max(20, traits.width - 30));
        canvas.draw({fit(paint(Colour::blue, bar(share, columns), traits.colour) + " " +
                             grouped(done) + " samples",
                         static_cast<std::size_t>(std::max(10, traits.width - 1)))});
        return !stopped;
      });
    }
    if (result.stopped) {
      std::fprintf(stderr, "stopped after %s\n",
                   plural(result.samples, "sample", "samples").c_str());
      return interrupts.exit_code();
    }
    print(result, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return kOk;
  }

 private:
  void read_sizes() {
    if (size_.empty()) {
      if (options_.format == "cifar10")
        size_ = "32x32";
      else if (options_.format == "idx")
        size_ = "28x28";
      else
        return;
    }
    const std::size_t dots = size_.find("..");
    try {
      const auto extent = [](std::string_view text) {
        Extent parsed = parse_extent(text);
        if (parsed.width == 0) parsed.width = parsed.height;
        return parsed;
      };
      options_.least = extent(std::string_view(size_).substr(0, dots));
      options_.most =
          dots == size_.npos ? options_.least : extent(std::string_view(size_).substr(dots + 2));
      if (options_.most.height < options_.least.height ||
          options_.most.width < options_.least.width)
        throw UsageError("the range is empty: " + in_quotes(size_));
      if (std::max(options_.most.height, options_.most.width) > 8192)
        throw UsageError("sides are at most 8192, got " + in_quotes(size_));
    } catch (const UsageError& error) {
      throw error.at("--size");
    }
  }

  void read_corrupt() {
    if (corrupt_.empty()) return;
    try {
      if (corrupt_.back() != '%')
        throw UsageError("expected a share such as 1%, got " + in_quotes(corrupt_));
      options_.corrupt_share = parse_error_budget(corrupt_).share.value_or(1);
    } catch (const UsageError& error) {
      throw error.at("--corrupt");
    }
  }

  void print(const SynthResult& result, double seconds) const {
    std::FILE* stream = json_ == "-" ? stderr : stdout;
    std::fprintf(stream, "%s: %s, %s, in %s\n", printable(options_.folder).c_str(),
                 plural(result.samples, "sample", "samples").c_str(),
                 human_bytes(static_cast<double>(result.bytes)).c_str(),
                 human_seconds(seconds).c_str());
    if (!result.manifest.empty())
      std::fprintf(stream, "%s of them are damaged; %s lists them\n",
                   grouped(result.corrupted).c_str(), printable(result.manifest).c_str());
    if (json_.empty()) return;
    const nlohmann::ordered_json json{{"folder", options_.folder}, {"format", options_.format},
                                      {"samples", result.samples}, {"corrupted", result.corrupted},
                                      {"bytes", result.bytes},     {"manifest", result.manifest},
                                      {"seed", options_.seed},     {"seconds", seconds}};
    write_output(json_,
                 json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }

  SynthOptions options_;
  std::string size_;
  std::string corrupt_;
  std::string json_;
  RemoteFlags remote_;
};

}  // namespace

std::unique_ptr<Command> make_synth(CLI::App& program) {
  return std::make_unique<Synth>(program);
}

}  // namespace penstock::tool
