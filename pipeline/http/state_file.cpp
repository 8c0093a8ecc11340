#include "pipeline/http/state_file.h"

#include <span>
#include <vector>

#include <penstock/file_system.h>
#include <penstock/internal/crc32c.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>

#include "pipeline/http/shared_object.h"
#include "pipeline/io/durable.h"
#include "pipeline/io/file_lock.h"

namespace penstock {
namespace {

constexpr std::string_view kMagic = "penstock state 1";
constexpr std::size_t kLengthBytes = 8;
// for other processes that save, which takes milliseconds
constexpr std::chrono::seconds kPatience{10};
constexpr std::size_t kHeaderBytes = kMagic.size() + kLengthBytes + 4;

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string little_endian(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

std::string previous_of(const std::string& path) {
  return path + ".previous";
}

/// The header of a state's file.
std::string header_of(std::string_view state) {
  const std::string length = little_endian(state.size(), kLengthBytes);
  const std::uint32_t sum = crc32c(bytes_of(state), crc32c(bytes_of(length)));
  return std::string(kMagic) + length + little_endian(sum, 4);
}

/// `parse_state_file`, naming `path` where it throws.
std::string parse_state_of(const std::string& path, std::string_view bytes) {
  try {
    return parse_state_file(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

/// Returns nothing if there is no such file. Throws Error{data_loss} if it is damaged.
std::optional<std::string> read_state(const std::string& path) {
  std::vector<std::byte> bytes;
  try {
    bytes = make_file_system("pread")->open(path)->read_all(kHeaderBytes + kMaxStateBytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return std::nullopt;
    if (error.code() != ErrorCode::out_of_range) throw;
    throw Error(ErrorCode::data_loss, "not a state file: " + error.cause(), error.where());
  }
  return parse_state_of(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// The state in an object. The store has it in full or not at all, so no previous state is kept.
std::optional<std::string> read_shared(http::SharedObject& object, const std::string& path) {
  const std::optional<std::string> bytes = object.read(kHeaderBytes + kMaxStateBytes);
  if (!bytes) return std::nullopt;
  return parse_state_of(path, *bytes);
}

}  // namespace

std::string parse_state_file(std::string_view bytes) {
  const auto damaged = [](const std::string& how) {
    return Error(ErrorCode::data_loss, "the state file is damaged: " + how);
  };
  if (!bytes.starts_with(kMagic)) throw Error(ErrorCode::data_loss, "not a state file");
  if (bytes.size() < kHeaderBytes) throw damaged("it ends within its header");
  const std::uint64_t length = number_at(bytes, kMagic.size(), kLengthBytes);
  if (length != bytes.size() - kHeaderBytes) {
    throw damaged("it has " + std::to_string(bytes.size() - kHeaderBytes) + " bytes of " +
                  std::to_string(length));
  }
  const std::string_view state = bytes.substr(kHeaderBytes);
  const std::uint32_t sum =
      crc32c(bytes_of(state), crc32c(bytes_of(bytes.substr(kMagic.size(), kLengthBytes))));
  if (sum != number_at(bytes, kMagic.size() + kLengthBytes, 4)) throw damaged("its CRC32C differs");
  return std::string(state);
}

struct StateFile::Impl {
  Impl(const std::string& given, std::chrono::milliseconds patience)
      : path(is_remote(given) ? given : replaceable(given)) {
    if (!is_remote(path)) {
      lock.emplace(path, patience);
      return;
    }
    object = http::open_shared_object(path);
    object->read(kHeaderBytes + kMaxStateBytes);
  }

  // target of links; all files are next to it, as a rename can't leave its file system
  const std::string path;
  std::optional<FileLock> lock;                // of a file here
  std::unique_ptr<http::SharedObject> object;  // of a store
  SlowMutex saving;                            // held while a state is written: one call at a time
};

StateFile::StateFile(const std::string& path, std::chrono::milliseconds patience)
    : impl_(std::make_unique<Impl>(path, patience)) {}
StateFile::~StateFile() = default;

const std::string& StateFile::path() const noexcept {
  return impl_->path;
}

void StateFile::check() const {
  if (impl_->object == nullptr) return check_writable(impl_->path);
  const MutexLock lock(impl_->saving);
  impl_->object->check();
}

void StateFile::save(std::string_view state, std::function<int(const char* step)> fault) {
  const std::string& path = impl_->path;
  if (state.size() > kMaxStateBytes) {
    throw Error(ErrorCode::out_of_range,
                "a state of " + std::to_string(state.size()) + " bytes exceeds the limit of " +
                    std::to_string(kMaxStateBytes),
                {.shard = path});
  }
  const std::string header = header_of(state);
  const MutexLock lock(impl_->saving);
  if (impl_->object != nullptr) return impl_->object->write(header + std::string(state));
  // Only a whole state is worth keeping.
  bool keep = false;
  try {
    keep = read_state(path).has_value();
  } catch (const Error&) {
    keep = false;
  }
  DurableFile file(path, std::move(fault));
  file.append(bytes_of(header));
  file.append(bytes_of(state));
  file.commit(keep ? previous_of(path) : std::string());
}

std::vector<std::string> companions_of_state(const std::string& path) {
  if (is_remote(path)) return {};
  const std::string file_path = follow_links(path);
  return {previous_of(file_path), file_path + ".lock"};
}

void save_state(const std::string& path, std::string_view state) {
  StateFile(path, kPatience).save(state);
}

std::optional<std::string> load_state(const std::string& path) {
  if (is_remote(path)) return read_shared(*http::open_shared_object(path), path);
  std::optional<Error> damage;
  const std::string file_path = replaceable(path);
  for (const std::string& name : {file_path, previous_of(file_path)}) {
    try {
      if (std::optional<std::string> state = read_state(name)) {
        if (damage) {
          log(LogLevel::warning,
              std::string(damage->what()) + "; resuming from the previous state, " + name);
        }
        return state;
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::data_loss) throw;
      if (!damage) damage = error;
    }
  }
  if (damage) throw Error(*damage);
  return std::nullopt;
}

}  // namespace penstock
