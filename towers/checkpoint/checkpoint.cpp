#include "towers/checkpoint/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <penstock/durable_file.h>
#include <penstock/error.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>
#include <penstock/rng.h>

#include "towers/checkpoint/run_folder.h"
#include "towers/checkpoint/run_settings.h"
#include "towers/classes.h"
#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kKind = "penstock training ";
constexpr std::string_view kFormat = "penstock training 1";
/// Present where numbers in settings have all their digits. Older files have six after the point.
const std::string kExact = "exact settings";
constexpr std::string_view kSuffix = ".safetensors";
const std::string kSetting = "setting ";
const std::string kEarlyStop = "early stop";

/// The tensors by name, with copies of values that are not in host memory.
struct Named {
  std::vector<NamedTensor> tensors{};
  std::deque<Array> copies{};

  void add(const std::string& name, Gpu* gpu, const Array& array) {
    const Array& values = copies.emplace_back(on_host(gpu, array));
    tensors.push_back({name, DType::f32, values.shape(), std::as_bytes(values.values())});
  }
};

Named values_of(const VariableStore& store) {
  Named named;
  for (const Variable* variable : store.of(0))
    named.add(variable->name, variable->gpu, variable->value);
  return named;
}

/// Returns the first array that has a value that is not a number; empty: there is none.
std::string no_number_in(const Named& named) {
  for (std::size_t i = 0; i < named.tensors.size(); ++i)
    if (!std::ranges::all_of(named.copies[i].values(),
                             [](float value) { return std::isfinite(value); }))
      return named.tensors[i].name;
  return {};
}

std::string slot_name(const Variable& variable, std::size_t slot) {
  return variable.name + "#" + std::to_string(slot);
}

std::uint64_t mix_text(std::uint64_t state, std::string_view text) {
  for (const char c : text) state = mix_path(state, static_cast<unsigned char>(c));
  return mix_path(state, text.size());
}

const std::string& text_at(const SafeTensors& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) throw Error(ErrorCode::data_loss, "no " + key + " in it");
  return found->second;
}

std::uint64_t number_at(const SafeTensors& file, const std::string& key) {
  const std::string& text = text_at(file, key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::data_loss, key + " is not a number");
  return value;
}

std::vector<std::string> stored_classes(const SafeTensors& file) {
  const auto found = file.metadata().find(kClasses);
  return found == file.metadata().end() ? std::vector<std::string>() : classes_in(found->second);
}

std::string read_file(const std::string& path) {
  if (is_remote(path)) return read_stored(path);
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : -1;
  if (size < 0) throw Error(ErrorCode::unavailable, "can't open the file");
  std::string contents(static_cast<std::size_t>(size), '\0');
  in.seekg(0);
  in.read(contents.data(), size);
  contents.resize(static_cast<std::size_t>(in.gcount()));
  return contents;
}

SafeTensors checked(SafeTensors file) {
  const std::string& format = text_at(file, "format");
  if (!format.starts_with(kKind)) throw Error(ErrorCode::data_loss, "not a checkpoint");
  if (format != kFormat)
    throw Error(ErrorCode::invalid_argument,
                "it is of format " + format.substr(kKind.size()) +
                    ", which another version of Penstock wrote; this one reads 1");
  if (text_at(file, "digest") != digest_of(file.tensors(), file.metadata()))
    throw Error(ErrorCode::data_loss, "its digest is wrong");
  return file;
}

void load(const SafeTensors& file, const std::string& name, Gpu* gpu, Array& into,
          bool cast = false) {
  if (!file.has(name))
    throw Error(
        ErrorCode::invalid_argument,
        "variable " + name + " is not in the file, which belongs to another model (--model)");
  const NamedTensor& tensor = file.at(name);
  if (!(tensor.shape == into.shape()))
    throw Error(ErrorCode::invalid_argument, "variable " + name + " has shape " +
                                                 into.shape().to_string() + ", in the file " +
                                                 tensor.shape.to_string());
  if (tensor.dtype != DType::f32 && !cast)
    throw Error(ErrorCode::invalid_argument,
                "variable " + name + " is f32, in the file " + std::string(name_of(tensor.dtype)) +
                    "; --init-cast (cast_initial_variables) converts f16, bf16 and f64");
  assign(gpu, f32_values(tensor), into);
}

void load_variables(const SafeTensors& file, VariableStore& store, bool cast = false) {
  for (Variable* variable : store.of(0))
    load(file, variable->name, variable->gpu, variable->value, cast);
}

std::map<std::string, std::string> settings_in(const SafeTensors& file) {
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(kSetting)) settings[key.substr(kSetting.size())] = value;
  return settings;
}

RunPosition apply(const SafeTensors& file, VariableStore& store, Strategy& strategy,
                  const std::map<std::string, std::string>& setting) {
  check_settings(settings_in(file), file.metadata().contains(kExact), setting);
  for (std::size_t v = 0; v < store.of(0).size(); ++v) {
    Variable& variable = *store.of(0)[v];
    load(file, variable.name, variable.gpu, variable.value);
    const Slots slots = strategy.slots(v);
    for (std::size_t s = 0; s < slots.arrays.size(); ++s)
      load(file, slot_name(variable, s), slots.gpu, slots.arrays[s]);
  }
  RunPosition position;
  position.step = number_at(file, "step");
  position.epoch = number_at(file, "epoch");
  position.setting = setting;
  position.classes = stored_classes(file);
  const auto early_stop = file.metadata().find(kEarlyStop);
  if (early_stop != file.metadata().end()) position.early_stop = early_stop->second;
  const std::span<const std::byte> feed = file.at("#feed").bytes;
  position.feed.assign(reinterpret_cast<const char*>(feed.data()), feed.size());
  strategy.restore(position.step);
  return position;
}

/// Removes the files that `write_durably` leaves if its process is killed.
void remove_unfinished(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("step-") || !name.ends_with(std::string(kSuffix) + ".partial")) continue;
    std::error_code ignored;  // it does no harm
    const bool is_plain = at->symlink_status(ignored).type() == fs::file_type::regular &&
                          at->hard_link_count(ignored) == 1;
    if (is_plain) fs::remove(at->path(), ignored);
  }
}

}  // namespace

std::string digest_of(std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::uint64_t state = 0;
  for (const auto& [key, value] : metadata)
    if (key != "digest") state = mix_text(mix_text(state, key), value);
  for (const NamedTensor& tensor : tensors) {
    state = mix_text(state, tensor.name);
    for (std::size_t at = 0; at < tensor.bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, tensor.bytes.data() + at,
                  std::min<std::size_t>(8, tensor.bytes.size() - at));
      state = mix_path(state, word);
    }
  }
  return std::to_string(state);
}

Checkpoints::Checkpoints(std::string folder, bool to_read, int keep)
    : folder_(std::move(folder)), to_read_(to_read), keep_(static_cast<std::size_t>(keep)) {
  if (keep < 1) throw Error(ErrorCode::invalid_argument, "at least one checkpoint has to be kept");
  if (is_remote(folder_)) {
    store_.emplace(folder_, to_read_);
    return;
  }
  refuse_scheme(folder_);
  if (to_read_) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw Error(ErrorCode::unavailable, "can't make folder " + folder_ + ": " + error.message());
  lock_ = open_trainer_lock(folder_, true);
  const Locked locked = try_lock(lock_.get(), folder_);
  if (locked == Locked::yes) remove_unfinished(folder_);
  if (locked != Locked::by_another) return;
  throw Error(ErrorCode::unavailable, lock_holder(lock_.get()) + " keeps its checkpoints in " +
                                          folder_ + ": wait for its end, or name another folder");
}

void Checkpoints::save(VariableStore& store, Strategy& strategy, const RunPosition& position,
                       bool stop_if_diverged) {
  Named named = values_of(store);
  for (std::size_t v = 0; v < store.of(0).size(); ++v) {
    const Slots slots = strategy.slots(v);
    for (std::size_t s = 0; s < slots.arrays.size(); ++s)
      named.add(slot_name(*store.of(0)[v], s), slots.gpu, slots.arrays[s]);
  }
  if (const std::string wrong = no_number_in(named); !wrong.empty()) {
    const std::string text = wrong + " has values that are not numbers after step " +
                             std::to_string(position.step) +
                             ", so no checkpoint of it is kept; a lower learning rate may help";
    if (stop_if_diverged) throw Error(ErrorCode::diverged, text);
    return log(LogLevel::warning, text);
  }
  std::vector<NamedTensor>& tensors = named.tensors;
  tensors.push_back({"#feed",
                     DType::u8,
                     {static_cast<std::int64_t>(position.feed.size())},
                     std::as_bytes(std::span<const char>(position.feed))});
  std::map<std::string, std::string> metadata{{"format", std::string(kFormat)},
                                              {"step", std::to_string(position.step)},
                                              {"epoch", std::to_string(position.epoch)},
                                              {kExact, "yes"}};
  for (const auto& [key, value] : position.setting) metadata[kSetting + key] = value;
  if (!position.early_stop.empty()) metadata[kEarlyStop] = position.early_stop;
  if (!position.classes.empty()) metadata[kClasses] = text_of_classes(position.classes);
  metadata["digest"] = digest_of(tensors, metadata);
  const std::string contents = encode_safetensors(tensors, metadata);
  if (store_) {
    std::vector<CheckpointFile> all = files();
    std::erase_if(all, [&](const CheckpointFile& one) { return one.step == position.step; });
    all.push_back({position.step, {}});
    return store_->add(position.step, contents, outdated(std::move(all), position));
  }
  const std::string file = checkpoint_path(folder_, position.step);
  write_durably(file, contents);
  damaged_.erase(file);
  std::error_code ignored;  // one too many does no harm
  for (const std::string& one : outdated(files(), position)) fs::remove(one, ignored);
}

std::vector<CheckpointFile> Checkpoints::files() {
  return store_ ? store_->files() : checkpoint_files(folder_);
}

std::vector<std::string> Checkpoints::outdated(std::vector<CheckpointFile> all,
                                               const RunPosition& position) const {
  std::vector<std::string> paths(damaged_.begin(), damaged_.end());
  std::erase_if(all, [&](const CheckpointFile& one) { return damaged_.contains(one.path); });
  for (std::size_t i = 0; i + keep_ < all.size(); ++i)
    if (all[i].step != position.best_step) paths.push_back(all[i].path);
  return paths;
}

std::optional<StoredRun> Checkpoints::newest() {
  const std::vector<CheckpointFile> all = files();
  if (all.empty()) return std::nullopt;
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    try {
      return StoredRun::read(one->path);
    } catch (const Error& error) {
      const bool gone =
          error.code() == ErrorCode::unavailable || error.code() == ErrorCode::not_found;
      if (to_read_ && gone) continue;
      // One that somebody has removed from a store is listed still.
      const bool removed = store_ && error.code() == ErrorCode::not_found;
      if (error.code() != ErrorCode::data_loss && !removed) throw;
      log(LogLevel::warning, "checkpoint " + one->path + " is skipped: " + error.cause());
      damaged_.insert(one->path);
    }
  }
  if (to_read_) return std::nullopt;  // the writer says what is wrong, or has a whole one
  throw Error(ErrorCode::data_loss, "every checkpoint in " + folder_ + " is damaged");
}

StoredRun::StoredRun(std::string file, std::string name)
    : name_(std::move(name)), file_(checked(SafeTensors(std::move(file)))) {}

StoredRun StoredRun::read(const std::string& path) {
  try {
    return StoredRun(read_file(path), path);
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

std::uint64_t StoredRun::step() const {
  return number_at(file_, "step");
}
std::uint64_t StoredRun::digest() const {
  return number_at(file_, "digest");
}

std::uint64_t StoredRun::variables_digest() const {
  std::vector<NamedTensor> variables;
  for (const NamedTensor& tensor : file_.tensors())
    if (tensor.name.find('#') == std::string::npos) variables.push_back(tensor);
  return std::stoull(digest_of(variables, {}));
}

std::uint64_t StoredRun::epoch() const {
  return number_at(file_, "epoch");
}

std::string StoredRun::setting(const std::string& key) const {
  const auto found = file_.metadata().find(kSetting + key);
  return found != file_.metadata().end() ? found->second : "";
}

std::vector<std::string> StoredRun::classes() const {
  return stored_classes(file_);
}

RunPosition StoredRun::restore(VariableStore& store, Strategy& strategy,
                               const std::map<std::string, std::string>& setting) const {
  try {
    RunPosition position = apply(file_, store, strategy, setting);
    position.file = name_;
    return position;
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = name_});
  }
}

void StoredRun::restore_variables(VariableStore& store) const {
  try {
    load_variables(file_, store);
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = name_});
  }
}

void import_variables(VariableStore& store, const std::string& path, bool cast) {
  try {
    load_variables(SafeTensors(read_file(path)), store, cast);
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

void export_variables(const VariableStore& store, const std::string& path,
                      const std::vector<std::string>& classes,
                      std::map<std::string, std::string> metadata) {
  metadata["format"] = "penstock variables 1";
  if (!classes.empty()) metadata[kClasses] = text_of_classes(classes);
  write_durably(path, encode_safetensors(values_of(store).tensors, metadata));
}

std::vector<std::string> exported_classes(const std::string& path) {
  try {
    return stored_classes(SafeTensors(read_file(path)));
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

}  // namespace penstock::towers
