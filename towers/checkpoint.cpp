#include "towers/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <penstock/durable_file.h>
#include <penstock/error.h>
#include <penstock/log.h>
#include <penstock/rng.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kFormat = "penstock training 1";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::size_t kKept = 2;

/// Tensors by name, and those of their values that lie elsewhere than in host memory.
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

std::string slot_name(const Variable& variable, std::size_t slot) {
  return variable.name + "#" + std::to_string(slot);
}

std::uint64_t mix_text(std::uint64_t state, std::string_view text) {
  for (const char c : text) state = mix_path(state, static_cast<unsigned char>(c));
  return mix_path(state, text.size());
}

/// Of everything a file holds but this number.
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
    throw Error(ErrorCode::data_loss, key + " is no number");
  return value;
}

SafeTensors open(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorCode::unavailable, "can't open it");
  return SafeTensors(std::string(std::istreambuf_iterator<char>(in), {}));
}

SafeTensors read(const std::string& path) {
  SafeTensors file = open(path);
  if (text_at(file, "format") != kFormat) throw Error(ErrorCode::data_loss, "not a checkpoint");
  if (text_at(file, "digest") != digest_of(file.tensors(), file.metadata()))
    throw Error(ErrorCode::data_loss, "its digest is wrong");
  return file;
}

void load(const SafeTensors& file, const std::string& name, Gpu* gpu, Array& into) {
  const NamedTensor& tensor = file.at(name);
  if (tensor.dtype != DType::f32 || !(tensor.shape == into.shape()))
    throw Error(ErrorCode::invalid_argument, "variable " + name + " has shape " +
                                                 into.shape().to_string() + ", in the file " +
                                                 tensor.shape.to_string());
  std::vector<float> values(into.size());
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  assign(gpu, values, into);
}

RunPosition apply(const SafeTensors& file, VariableStore& store, Strategy& strategy,
                  const std::map<std::string, std::string>& setting) {
  for (const auto& [key, value] : setting) {
    const auto found = file.metadata().find("setting " + key);
    const std::string was = found != file.metadata().end() ? found->second : "unknown";
    if (was != value)
      throw Error(ErrorCode::invalid_argument,
                  "the checkpoint is of a run whose " + key + " is " + was + ", not " + value);
  }
  for (std::size_t v = 0; v < store.of(0).size(); ++v) {
    Variable& variable = *store.of(0)[v];
    load(file, variable.name, variable.gpu, variable.value);
    const Slots slots = strategy.slots(v);
    for (std::size_t s = 0; s < slots.arrays.size(); ++s)
      load(file, slot_name(variable, s), slots.gpu, slots.arrays[s]);
  }
  RunPosition position{number_at(file, "step"), number_at(file, "epoch"), {}, setting};
  const std::span<const std::byte> feed = file.at("#feed").bytes;
  position.feed.assign(reinterpret_cast<const char*>(feed.data()), feed.size());
  strategy.restore(position.step);
  return position;
}

/// What `write_durably` leaves when it is killed.
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

Checkpoints::Checkpoints(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw Error(ErrorCode::unavailable, "can't make folder " + folder_ + ": " + error.message());
  lock_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Where folders can't be locked, two runs at once are the user's care.
  if (lock_ < 0) return;
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    remove_unfinished(folder_);
    return;
  }
  if (errno != EWOULDBLOCK) return;
  const std::string holder = lock_holder(lock_);
  ::close(lock_);
  throw Error(ErrorCode::unavailable, holder + " keeps its checkpoints in " + folder_ +
                                          ": wait for its end, or name another folder");
}

Checkpoints::~Checkpoints() {
  if (lock_ >= 0) ::close(lock_);
}

void Checkpoints::save(VariableStore& store, Strategy& strategy, const RunPosition& position) {
  Named named = values_of(store);
  for (std::size_t v = 0; v < store.of(0).size(); ++v) {
    const Slots slots = strategy.slots(v);
    for (std::size_t s = 0; s < slots.arrays.size(); ++s)
      named.add(slot_name(*store.of(0)[v], s), slots.gpu, slots.arrays[s]);
  }
  std::vector<NamedTensor>& tensors = named.tensors;
  tensors.push_back({"#feed",
                     DType::u8,
                     {static_cast<std::int64_t>(position.feed.size())},
                     std::as_bytes(std::span<const char>(position.feed))});
  std::map<std::string, std::string> metadata{{"format", std::string(kFormat)},
                                              {"step", std::to_string(position.step)},
                                              {"epoch", std::to_string(position.epoch)}};
  for (const auto& [key, value] : position.setting) metadata["setting " + key] = value;
  metadata["digest"] = digest_of(tensors, metadata);
  std::string name = std::to_string(position.step);
  name.insert(0, 12 - std::min<std::size_t>(12, name.size()), '0');
  const std::string file = folder_ + "/step-" + name + std::string(kSuffix);
  write_durably(file, encode_safetensors(tensors, metadata));
  damaged_.erase(file);
  std::vector<std::string> whole = files();
  std::erase_if(whole, [&](const std::string& one) { return damaged_.contains(one); });
  std::error_code ignored;  // one too many does no harm
  for (std::size_t i = 0; i + kKept < whole.size(); ++i) fs::remove(whole[i], ignored);
  for (const std::string& one : damaged_) fs::remove(one, ignored);
}

std::vector<std::string> Checkpoints::files() const {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(kSuffix) && entry.is_regular_file(error))
      found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found;
}

std::optional<RunPosition> Checkpoints::restore(VariableStore& store, Strategy& strategy,
                                                const std::map<std::string, std::string>& setting) {
  const std::vector<std::string> all = files();
  if (all.empty()) return std::nullopt;
  for (auto path = all.rbegin(); path != all.rend(); ++path) {
    try {
      return apply(read(*path), store, strategy, setting);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::data_loss)
        throw Error(error.code(), error.cause(), {.shard = *path});
      log(LogLevel::warning, "checkpoint " + *path + " is passed over: " + error.cause());
      damaged_.insert(*path);
    }
  }
  throw Error(ErrorCode::data_loss, "every checkpoint in " + folder_ + " is damaged");
}

void import_variables(VariableStore& store, const std::string& path) {
  try {
    const SafeTensors file = open(path);
    for (Variable* variable : store.of(0))
      load(file, variable->name, variable->gpu, variable->value);
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

void export_variables(const VariableStore& store, const std::string& path) {
  write_durably(path,
                encode_safetensors(values_of(store).tensors, {{"format", "penstock variables 1"}}));
}

}  // namespace penstock::towers
