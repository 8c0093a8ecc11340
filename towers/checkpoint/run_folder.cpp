#include "towers/checkpoint/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <penstock/durable_file.h>
#include <penstock/error.h>
#include <penstock/file_system.h>
#include <penstock/remote_files.h>

namespace penstock::towers {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kStepSuffix = ".safetensors";
constexpr std::size_t kStepDigits = 12;

std::string finished_path(const std::string& folder) {
  return folder + "/finished";
}

std::optional<std::uint64_t> step_in(std::string_view name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kStepSuffix)) return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  name.remove_suffix(kStepSuffix.size());
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::uint64_t step) {
  std::string number = std::to_string(step);
  number.insert(0, kStepDigits - std::min(kStepDigits, number.size()), '0');
  return folder + "/" + std::string(kStepPrefix) + number + std::string(kStepSuffix);
}

std::vector<CheckpointFile> checkpoint_files(const std::string& folder) {
  std::vector<CheckpointFile> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::optional<std::uint64_t> step = step_in(at->path().filename().string());
    std::error_code gone;
    if (step && at->is_regular_file(gone)) found.push_back({*step, at->path().string()});
  }
  std::ranges::sort(found, {}, &CheckpointFile::step);
  return found;
}

void write_finished(const std::string& folder, const Finished& finished) {
  const nlohmann::ordered_json json{
      {"step", finished.step}, {"epochs", finished.epochs}, {"max_steps", finished.max_steps}};
  const std::string path = finished_path(folder);
  const std::string text = json.dump() + "\n";
  if (!is_remote(folder)) return write_durably(path, text);
  const auto object = default_file_system()->create(path);
  object->append(std::as_bytes(std::span(text)));
  object->commit();
}

void remove_finished(const std::string& folder) {
  const std::string path = finished_path(folder);
  default_file_system()->remove(path);
}

std::optional<Finished> read_finished(const std::string& folder) {
  const std::string path = finished_path(folder);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto number = [&](const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number_unsigned())
      throw Error(ErrorCode::data_loss, std::string("the file lacks ") + key, {.shard = path});
    return json[key].get<std::uint64_t>();
  };
  return Finished{number("step"), number("epochs"), number("max_steps")};
}

UniqueFd open_trainer_lock(const std::string& folder, bool to_lock) {
  const std::string path = folder + "/trainer.lock";
  const int how = to_lock ? O_RDWR | O_CREAT : O_RDONLY;
  for (;;) {
    UniqueFd fd(::open(path.c_str(), how | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (fd || !to_lock) return fd;
    if (errno == EINTR) continue;
    const int error = errno;
    // That of another user, which most file systems lock all the same.
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd) throw error_from_errno(error, "lock", path);
    return fd;
  }
}

bool is_trained_into(const std::string& folder) {
  const UniqueFd fd = open_trainer_lock(folder, false);
  return fd && lock_holder(fd.get()).starts_with("process ");
}

}  // namespace penstock::towers
