#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <nlohmann/json.hpp>

#include <penstock/durable_file.h>
#include <penstock/image_records.h>
#include <penstock/internal/posix.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/memory_flag.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/shards/pass.h"
#include "tools/penstock/support/exit_code.h"

namespace penstock::tool {
namespace {

namespace fs = std::filesystem;

/// Returns the path of a key below a folder. Throws Error{data_loss} for a key that leads out of
/// the folder.
fs::path path_below(const fs::path& folder, std::string_view key) {
  const fs::path path(key);
  const bool safe = !key.empty() && path.is_relative() && key.find('\0') == key.npos &&
                    std::none_of(path.begin(), path.end(), [](const fs::path& part) {
                      return part.empty() || part == ".." || part == ".";
                    });
  if (!safe)
    throw Error(ErrorCode::data_loss, "a key is not a path below a folder: " + in_quotes(key));
  return folder / path;
}

class Unpack final : public Command {
 public:
  explicit Unpack(CLI::App& program)
      : Command(program, "unpack",
                "write packed images as JPEGs again, with the same coefficients and metadata",
                "penstock unpack photos.pnr --out photos") {
    app()->add_option("PATH", paths_, "files or patterns")->required();
    app()
        ->add_option("--out", folder_, "folder to write to: each image at its key")
        ->required()
        ->type_name("DIR");
    app()->add_flag("--force", force_, "overwrite existing files");
    memory_.add_to(*app());
    app()->add_flag("--quiet", quiet_, "don't show progress");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
  }

  int run() override {
    Interrupts interrupts;
    check_output(json_, {folder_});
    const auto start = std::chrono::steady_clock::now();
    PassOptions options;
    options.title = "penstock unpack · " + folder_;
    options.quiet = quiet_;
    options.memory_bytes = memory_.bytes();
    std::uint64_t bytes = 0;
    std::uint64_t bad = 0;
    std::uint64_t written = 0;
    const PassResult result =
        skip(image_records(paths_), options, interrupts, [&](const Element& element) {
          const std::string_view key = element["key"].bytes_at();
          try {
            bytes += write(key, unpack_image(element["image"].bytes_at()));
            ++written;
          } catch (...) {
            ++bad;
            const Status status = status_from_current_exception();
            std::fprintf(stderr, "bad: %s: %s\n", printable(key).c_str(),
                         printable(status.error().what()).c_str());
          }
        });
    for (const Error& error : result.errors)
      std::fprintf(stderr, "bad: %s\n", printable(error.what()).c_str());
    bad += result.bad;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::fprintf(json_ == "-" ? stderr : stdout, "%s: %s, %s, in %s\n", printable(folder_).c_str(),
                 plural(written, "image", "images").c_str(),
                 human_bytes(static_cast<double>(bytes)).c_str(),
                 human_seconds(elapsed.count()).c_str());
    if (!json_.empty()) {
      const nlohmann::ordered_json json{{"folder", folder_},
                                        {"images", written},
                                        {"bytes", bytes},
                                        {"bad", bad},
                                        {"seconds", elapsed.count()}};
      write_output(
          json_, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    }
    if (result.interrupted) return interrupts.exit_code();
    return bad == 0 ? kOk : kFailed;
  }

 private:
  std::uint64_t write(std::string_view key, const std::string& image) const {
    refuse_scheme(folder_);
    const fs::path path = path_below(folder_, key);
    std::error_code error;
    // A dangling link counts as existing.
    if (!force_ && fs::exists(fs::symlink_status(path, error)))
      throw Error(ErrorCode::invalid_argument, "the file exists already (--force overwrites it)",
                  {.shard = path.string(), .stage = {}});
    fs::create_directories(path.parent_path(), error);
    if (error)
      throw Error(ErrorCode::unavailable, "can't make the folder: " + error.message(),
                  {.shard = path.parent_path().string(), .stage = {}});
    write_durably(path.string(), image);
    return image.size();
  }

  std::vector<std::string> paths_;
  std::string folder_;
  std::string json_;
  MemoryFlag memory_;
  bool force_ = false;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_unpack(CLI::App& program) {
  return std::make_unique<Unpack>(program);
}

}  // namespace penstock::tool
