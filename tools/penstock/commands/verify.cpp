#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <penstock/image_codec.h>
#include <penstock/image_records.h>
#include <penstock/iterator.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/memory_flag.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/shards/open.h"
#include "tools/penstock/shards/pass.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

class Verify final : public Command {
 public:
  explicit Verify(CLI::App& program)
      : Command(program, "verify", "check every byte of shards, and decode every image in full",
                "penstock verify photos 'shards/*.tar' --json bad.json") {
    app()->add_option("PATH", paths_, "files, folders or patterns")->required();
    app()->add_flag("--hidden", hidden_, "include hidden files, folders and tar members");
    app()->add_flag("--strict-images", strict_images_,
                    "treat images with decoder warnings as bad, even if no pixel changes");
    app()->add_flag("--decode,!--no-decode", decode_, "decode images in full (the default)");
    app()
        ->add_option("--threads", threads_, "default: all")
        ->check(CLI::Range(1, kMostThreads))
        ->type_name("N");
    memory_.add_to(*app());
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
    app()->add_flag("--quiet", quiet_, "print bad records only");
  }

  int run() override {
    Interrupts interrupts;
    check_output(json_);
    static_cast<void>(memory_.bytes());  // refused before anything is read
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& path : paths_) {
      if (interrupts.received() == 0) check_path(path, interrupts);
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!quiet_ || bad_ > 0)
      std::fprintf(stream(), "%s good, %s in %s, %s\n", grouped(good_).c_str(),
                   plural(bad_, "bad record", "bad records").c_str(),
                   plural(shards_, "shard", "shards").c_str(),
                   human_seconds(elapsed.count()).c_str());
    const std::uint64_t warned = decoding_counts().images.warned;
    if (!quiet_ && warned > 0)
      std::fprintf(stream(), "%s decoded in spite of a warning (--strict-images refuses them)\n",
                   plural(warned, "image", "images").c_str());
    if (!quiet_ && skipped_ahead_.count() > 0)
      std::fprintf(stream(), "%s\n", skipped_ahead_.text().c_str());
    if (!json_.empty()) write_json(elapsed.count());
    if (interrupts.received() != 0) return interrupts.exit_code();
    return bad_ == 0 ? kOk : kFailed;
  }

 private:
  std::FILE* stream() const { return json_ == "-" ? stderr : stdout; }

  void check_path(const std::string& path, Interrupts& interrupts) {
    Shards shards;
    try {
      shards = find_shards(path, hidden_);
    } catch (const Error& error) {
      print_error(error.what());
      return keep(error);
    }
    skipped_ahead_.add(shards.skipped);
    for (const Shard& shard : shards.found) {
      if (interrupts.received() != 0) return;
      ++shards_;
      try {
        check_shard(shard, interrupts);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::resource_exhausted) throw;
        report(error);
      }
    }
  }

  void check_shard(const Shard& shard, Interrupts& interrupts) {
    Dataset samples = decode_ ? open_samples(shard, hidden_) : open_shard(shard, hidden_);
    if (shard.format == Format::records) samples = samples.map(checked, {.name = "check"});
    const auto component = encoded_component(samples.spec());
    if (decode_ && component)
      samples = samples.map(decode_image(*component, {.strict_images = strict_images_}));
    PassOptions options;
    options.title = "penstock verify · " + shard.path;
    options.threads = threads_;
    options.quiet = quiet_;
    options.keep = kKept;
    options.memory_bytes = memory_.bytes();
    const PassResult result = skip(samples, options, interrupts, [](const Element&) {});
    good_ += result.good;
    for (const Error& error : result.errors) report(error);
    bad_ += result.bad - result.errors.size();
  }

  /// Decoders do not look at all bytes of an image record.
  static Element checked(Element element) {
    check_image_record(element["image"].bytes_at());
    return element;
  }

  void report(const Error& error) {
    std::fprintf(stream(), "bad: %s\n", printable(error.what()).c_str());
    std::fflush(stream());
    keep(error);
  }

  void keep(const Error& error) {
    ++bad_;
    if (errors_.size() < kKept) errors_.push_back(error);
  }

  void write_json(double seconds) const {
    Json json{{"good", good_},
              {"bad", bad_},
              {"warned", decoding_counts().images.warned},
              {"shards", shards_},
              {"not_looked_at", skipped_ahead_.count()},
              {"seconds", seconds}};
    json["errors"] = Json::array();
    for (const Error& error : errors_)
      json["errors"].push_back({{"path", error.where().shard},
                                {"offset", error.where().offset},
                                {"index", error.where().index},
                                {"code", name_of(error.code())},
                                {"cause", error.cause()}});
    write_output(json_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  static constexpr std::size_t kKept = 100'000;
  std::vector<std::string> paths_;
  bool decode_ = true;
  bool hidden_ = false;
  bool strict_images_ = false;
  bool quiet_ = false;
  int threads_ = 0;
  MemoryFlag memory_;
  std::string json_;
  std::uint64_t good_ = 0;
  std::uint64_t bad_ = 0;
  std::uint64_t shards_ = 0;
  PassedOver skipped_ahead_;
  std::vector<Error> errors_;
};

}  // namespace

std::unique_ptr<Command> make_verify(CLI::App& program) {
  return std::make_unique<Verify>(program);
}

}  // namespace penstock::tool
