#include "pipeline/engine/quarantine.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/file_system.h>
#include <penstock/log.h>

#include "pipeline/core/json_text.h"
#include "pipeline/io/durable.h"

namespace penstock {
namespace {

constexpr std::uint64_t kMostLogged = 1ULL << 30;

std::string line_of(const Error& error) {
  const Provenance& where = error.where();
  const auto number = [](std::int64_t value) {
    return value < 0 ? std::string("null") : std::to_string(value);
  };
  const std::string hex =
      is_utf8(where.shard) ? "" : ",\"shard_hex\":\"" + hex_of(where.shard) + '"';
  return "{\"shard\":" + json_string(where.shard) + hex + ",\"offset\":" + number(where.offset) +
         ",\"length\":" + number(where.length) + ",\"index\":" + number(where.index) +
         ",\"stage\":" + json_string(where.stage) +
         ",\"code\":" + json_string(name_of(error.code())) +
         ",\"cause\":" + json_string(error.cause()) + "}";
}

}  // namespace

Quarantine::Quarantine(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  const MutexLock lock(mutex_);
  try {
    open();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    give_up(error);
  }
}

void Quarantine::open() {
  static_cast<void>(replaceable(path_));  // opening a pipe would block
  fd_ =
      UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!fd_) throw error_from_errno(errno, "write", path_);
  const auto bytes = make_file_system("pread")->open(path_)->read_all(kMostLogged);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // End a line that was torn by a crash, so that it does not spoil the next one.
  if (!rest.empty() && rest.back() != '\n') {
    if (const int reason = write_all(fd_.get(), "\n"))
      throw error_from_errno(reason, "write", path_);
  }
  while (!rest.empty()) {
    const std::size_t size = std::min(rest.find('\n'), rest.size());
    known_.emplace(rest.substr(0, size));
    rest.remove_prefix(std::min(size + 1, rest.size()));
  }
}

void Quarantine::give_up(const Error& error) {
  fd_ = UniqueFd();
  log(LogLevel::warning, std::string("quarantine continues without its file: ") + error.what());
}

void Quarantine::add(const Error& error) noexcept {
  try {
    MutexLock lock(mutex_);
    if (!fd_) return;
    std::string line = line_of(error);
    if (known_.contains(line)) return;
    if (const int reason = write_all(fd_.get(), line + "\n")) {
      return give_up(error_from_errno(reason, "write", path_));
    }
    known_.insert(std::move(line));
  } catch (...) {
    log_once(LogLevel::warning, "quarantine", "the quarantine misses bad elements: out of memory");
  }
}

}  // namespace penstock
