#include "towers/checkpoint/stored_checkpoints.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <sstream>
#include <utility>

#include <penstock/error.h>
#include <penstock/file_system.h>
#include <penstock/log.h>

namespace penstock::towers {
namespace {

constexpr std::string_view kFirstLine = "penstock checkpoints 1";

std::string list_path(const std::string& folder) {
  return folder + "/checkpoints";
}

/// "step-000000000012-5f0c12ab9e3d77a1.safetensors".
std::string new_name(std::uint64_t step) {
  std::random_device device;
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "step-%012llu-%08x%08x.safetensors",
                static_cast<unsigned long long>(step), device(), device());
  return text.data();
}

/// A checkpoint that could not be removed does no harm, except for its cost.
void try_to_remove(const std::string& path) {
  try {
    default_file_system()->remove(path);
  } catch (const Error& error) {
    log(LogLevel::warning, std::string("an old checkpoint stays: ") + error.what());
  }
}

}  // namespace

StoredCheckpoints::StoredCheckpoints(std::string folder, bool to_read)
    : folder_(std::move(folder)) {
  if (!to_read) list_.emplace(list_path(folder_)).check();
  load();
}

void StoredCheckpoints::load() {
  files_.clear();
  const std::string path = list_path(folder_);
  const std::optional<std::string> text = load_state(path);
  if (!text) return;
  const auto damaged = [&] {
    return Error(ErrorCode::data_loss, "it is not a list of checkpoints", {.shard = path});
  };
  std::istringstream lines(*text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) throw damaged();
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    CheckpointFile file;
    std::string name;
    if (!(words >> file.step >> name) || name.find('/') != name.npos) throw damaged();
    file.path = folder_ + "/" + name;
    files_.push_back(std::move(file));
  }
}

std::vector<CheckpointFile> StoredCheckpoints::files() {
  if (!list_) load();
  return files_;
}

void StoredCheckpoints::add(std::uint64_t step, std::string_view contents,
                            std::span<const std::string> dropped) {
  CheckpointFile added{step, folder_ + "/" + new_name(step)};
  const auto object = default_file_system()->create(added.path);
  object->append(std::as_bytes(std::span(contents)));
  object->commit();
  std::vector<CheckpointFile> files;
  std::vector<std::string> outdated;
  for (const CheckpointFile& one : files_) {
    const bool goes =
        one.step == step || std::find(dropped.begin(), dropped.end(), one.path) != dropped.end();
    if (goes) {
      outdated.push_back(one.path);
    } else {
      files.push_back(one);
    }
  }
  files.push_back(std::move(added));
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  std::string text = std::string(kFirstLine) + "\n";
  for (const CheckpointFile& one : files)
    text += std::to_string(one.step) + " " + one.path.substr(folder_.size() + 1) + "\n";
  list_->save(text);
  files_ = std::move(files);
  for (const std::string& path : outdated) try_to_remove(path);
  if (!std::exchange(is_tidy_, true)) remove_unlisted();
}

void StoredCheckpoints::remove_unlisted() {
  // Another run that has just written one of these can no longer list it.
  std::vector<std::string> found;
  try {
    found = default_file_system()->glob(folder_ + "/step-*.safetensors");
  } catch (const Error& error) {
    log(LogLevel::warning, std::string("leftovers of killed runs stay: ") + error.what());
  }
  for (const std::string& path : found) {
    const bool listed = std::any_of(files_.begin(), files_.end(),
                                    [&](const auto& one) { return one.path == path; });
    if (!listed) try_to_remove(path);
  }
}

std::string read_stored(const std::string& path) {
  const auto file = default_file_system()->open(path);
  std::string contents(file->info().size, '\0');
  file->read_exactly(0, std::as_writable_bytes(std::span(contents)));
  return contents;
}

}  // namespace penstock::towers
