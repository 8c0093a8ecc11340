#include <atomic>
#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <penstock/image_records.h>
#include <penstock/iterator.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/memory_flag.h"
#include "tools/penstock/commands/remote_flags.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

class Pack final : public Command {
 public:
  explicit Pack(CLI::App& program)
      : Command(program, "pack", "pack images into records that decode faster, to the same pixels",
                "penstock pack --images photos --jpeg coefficients --out photos.pnr\n"
                "  penstock profile --records photos.pnr --random-resized-crop 224 --batch 64"),
        remote_(*app()) {
    app()
        ->add_option("--images", folder_, "a folder (all .jpg, .jpeg, .png below it) or a pattern")
        ->required()
        ->type_name("DIR|GLOB");
    app()
        ->add_option("--jpeg", kind_,
                     "coefficients: fastest, about 1.5 times as large as the files; indexed: as "
                     "large as the files")
        ->required()
        ->check(CLI::IsMember({"coefficients", "indexed"}))
        ->type_name("KIND");
    app()
        ->add_option("--tables", tables_,
                     "Huffman tables of indexed records: file (default): one set for all images; "
                     "image: optimal tables for each image, a little smaller and slower")
        ->check(CLI::IsMember({"file", "image"}))
        ->type_name("file|image");
    app()
        ->add_option(
            "--out", out_,
            "file, or object on s3:// or gs://, to write; an existing one is replaced at the end")
        ->required()
        ->type_name("PATH|URL");
    app()
        ->add_option("--label-regex", options_.label_regex,
                     "regex whose group is the class; matched against the path if it has a /, else "
                     "against the file's name")
        ->type_name("REGEX");
    app()
        ->add_option("--label-depth", options_.label_depth,
                     "which folder names the class: 1 is the first below the root (default for a "
                     "folder), 0 the parent folder (default for a pattern)")
        ->check(CLI::Range(0, 1000))
        ->type_name("N");
    app()->add_flag("--hidden", options_.hidden,
                    "include hidden files and folders, whose names begin with a dot");
    app()->add_flag("--strict-images", options_.strict_images,
                    "treat files with decoder warnings as bad, even if no pixel changes");
    app()->add_flag("--keep-tail", options_.keep_tail,
                    "also store the bytes after a JPEG's end (gain maps, motion photos, previews), "
                    "for unpack; earlier versions of penstock can't read such a file");
    app()
        ->add_option("--on-error", on_error_, "how to handle a bad file: fail (default) or skip")
        ->check(CLI::IsMember({"fail", "skip"}))
        ->type_name("fail|skip");
    app()
        ->add_option("--threads", options_.threads, "default: all")
        ->check(CLI::Range(1, kMostThreads))
        ->type_name("N");
    memory_.add_to(*app());
    app()->add_flag("--quiet", quiet_, "don't show progress");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
  }

  int run() override {
    Interrupts interrupts;
    check_distinct({{"--out", out_}, {"--json", json_}});
    check_output(json_);
    remote_.choose();
    const auto start = Clock::now();
    options_.kind = kind_ == "indexed" ? ImageRecordKind::indexed : ImageRecordKind::coefficients;
    if (kind_ != "indexed" && app()->count("--tables") > 0)
      throw UsageError("applies to --jpeg indexed only", "--tables");
    options_.own_tables = tables_ == "image";
    options_.skip_bad = on_error_ == "skip";
    options_.memory_bytes = memory_.bytes();
    options_.bad = [&](const Error& error) {
      std::fprintf(stderr, "skipped: %s\n", printable(error.what()).c_str());
    };
    ImagePackResult result;
    {
      Canvas canvas(stderr);
      std::atomic<bool> stopped{false};
      const Cancellation cancellation(interrupts, [&] { stopped = true; });
      options_.progress = [&](std::uint64_t done, std::uint64_t all) {
        draw(canvas, done, all);
        return !stopped;
      };
      result = pack_images(folder_, out_, options_);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    print(result, seconds);
    if (!json_.empty()) write_json(result, seconds);
    if (result.stopped) return interrupts.exit_code();
    const std::uint64_t all = result.records + result.left_out;
    if (all < 10 || result.left_out <= result.records) return kOk;
    print_error(grouped(result.left_out) + " of " + grouped(all) +
                " images are bad and were skipped, more than half");
    return kFailed;
  }

 private:
  void draw(Canvas& canvas, std::uint64_t done, std::uint64_t all) const {
    const TerminalTraits traits = traits_of(stderr);
    if (quiet_ || !traits.interactive) return;
    const double share = static_cast<double>(done) / static_cast<double>(all);
    const auto columns = static_cast<std::size_t>(std::max(20, traits.width - 40));
    canvas.draw({fit(paint(Colour::blue, bar(share, columns), traits.colour) + " " + grouped(done) +
                         " of " + grouped(all),
                     static_cast<std::size_t>(std::max(10, traits.width - 1)))});
  }

  void print(const ImagePackResult& result, double seconds) const {
    std::FILE* stream = json_ == "-" ? stderr : stdout;
    print_records(result, seconds, stream);
    // A run that stopped has dropped bytes that the next run does not see.
    if (result.tails > 0) std::fprintf(stream, "%s\n", tails_text(result).c_str());
  }

  /// "2 files have bytes after the image's end, 1 of them only zeros: 599 bytes dropped …".
  std::string tails_text(const ImagePackResult& result) const {
    std::string text = plural(result.tails, "file", "files");
    if (result.resumed > 0 || result.stopped) text += " of this run";
    text += result.tails == 1 ? " has" : " have";
    text += " bytes after the image's end";
    if (result.zero_tails > 0) {
      text += result.zero_tails == result.tails
                  ? ", only zeros"
                  : ", " + grouped(result.zero_tails) + " of them only zeros";
    }
    text += ": " + plural(result.tail_bytes, "byte", "bytes");
    return text + (options_.keep_tail ? " kept" : " dropped (--keep-tail keeps them)");
  }

  void print_records(const ImagePackResult& result, double seconds, std::FILE* stream) const {
    if (result.stopped) {
      if (is_remote(out_)) {
        std::fprintf(stream, "stopped after %s; nothing is kept at %s\n",
                     plural(result.records, "record", "records").c_str(), printable(out_).c_str());
      } else {
        std::fprintf(stream,
                     "stopped after %s; %s.partial is kept, and the next run resumes from it\n",
                     plural(result.records, "record", "records").c_str(), printable(out_).c_str());
      }
      return;
    }
    const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
    std::fprintf(stream, "%s: %s, %s for %s of files (%.2f), in %s\n", printable(out_).c_str(),
                 plural(result.records, "record", "records").c_str(),
                 bytes(result.bytes_out).c_str(), bytes(result.bytes_in).c_str(),
                 static_cast<double>(result.bytes_out) /
                     static_cast<double>(std::max<std::uint64_t>(result.bytes_in, 1)),
                 human_seconds(seconds).c_str());
    if (result.resumed > 0)
      std::fprintf(stream, "%s of them come from an earlier run\n",
                   grouped(result.resumed).c_str());
    for (const auto& [why, count] : result.as_they_are)
      std::fprintf(stream, "%s stored unchanged: %s\n", grouped(count).c_str(), why.c_str());
    if (result.left_out > 0)
      std::fprintf(stream, "%s skipped\n",
                   plural(result.left_out, "bad file", "bad files").c_str());
  }

  void write_json(const ImagePackResult& result, double seconds) const {
    Json json{{"path", out_},
              {"kind", kind_},
              {"tables", kind_ == "indexed" ? Json(tables_) : Json(nullptr)},
              {"records", result.records},
              {"resumed", result.resumed},
              {"left_out", result.left_out},
              {"as_they_are", Json::object()},
              {"keep_tail", options_.keep_tail},
              {"tails", result.tails},
              {"tail_bytes", result.tail_bytes},
              {"zero_tails", result.zero_tails},
              {"bytes_in", result.bytes_in},
              {"bytes_out", result.bytes_out},
              {"stopped", result.stopped},
              {"seconds", seconds}};
    for (const auto& [why, count] : result.as_they_are) json["as_they_are"][why] = count;
    write_output(json_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  std::string folder_;
  std::string kind_;
  std::string tables_ = "file";
  std::string out_;
  std::string on_error_ = "fail";
  std::string json_;
  bool quiet_ = false;
  ImagePackOptions options_;
  RemoteFlags remote_;
  MemoryFlag memory_;
};

}  // namespace

std::unique_ptr<Command> make_pack(CLI::App& program) {
  return std::make_unique<Pack>(program);
}

}  // namespace penstock::tool
