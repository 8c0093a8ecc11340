#include "pipeline/engine/errors/quarantine.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/file_system.h>
#include <penstock/log.h>

#include "pipeline/core/json_text.h"
#include "pipeline/io/durable.h"

namespace penstock {
namespace {

constexpr std::size_t kReadAtOnce = 64 << 10;

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
  const MutexLock lock(file_mutex_);
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
  known_.emplace(std::filesystem::path(path_).parent_path().string());
  know_lines(*make_file_system("pread")->open(path_));
}

void Quarantine::know_lines(File& file) {
  std::string line;  // the part of one that the blocks so far hold
  std::string block;
  for (std::uint64_t at = 0; at < file.info().size; at += block.size()) {
    block.resize(std::min<std::uint64_t>(kReadAtOnce, file.info().size - at));
    file.read_exactly(at, std::as_writable_bytes(std::span(block)));
    std::string_view rest = block;
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      known_->add(line.append(rest.substr(0, end)));
      line.clear();
      rest.remove_prefix(end + 1);
    }
    line.append(rest);
  }
  if (line.empty()) return;
  // End a line that was torn by a crash, so that it does not spoil the next one.
  if (const int reason = write_all(fd_.get(), "\n")) throw error_from_errno(reason, "write", path_);
}

void Quarantine::give_up(const Error& error) {
  fd_ = UniqueFd();
  known_.reset();
  log(LogLevel::warning, std::string("quarantine continues without its file: ") + error.what());
}

namespace {

void say_incomplete() noexcept {
  log_once(LogLevel::warning, "quarantine", "the quarantine misses bad elements: out of memory");
}

}  // namespace

void Quarantine::add(const Error& error) noexcept {
  if (path_.empty()) return;
  try {
    MutexLock lock(mutex_);
    added_.push_back(error);
  } catch (...) {
    incomplete_.store(true, std::memory_order_relaxed);
  }
  some_.store(true, std::memory_order_release);
}

void Quarantine::write() noexcept {
  if (!some_.load(std::memory_order_acquire)) return;
  const MutexLock file_lock(file_mutex_);
  std::vector<Error> added;
  {
    const MutexLock lock(mutex_);
    some_.store(false, std::memory_order_relaxed);
    added.swap(added_);
  }
  if (incomplete_.exchange(false, std::memory_order_relaxed)) say_incomplete();
  for (const Error& error : added) {
    try {
      write(error);
    } catch (...) {
      say_incomplete();
    }
  }
}

void Quarantine::write(const Error& error) {
  if (!fd_) return;
  const std::string line = line_of(error);
  try {
    if (!known_->add(line)) return;
  } catch (const Error& failed) {
    return give_up(failed);
  }
  if (const int reason = write_all(fd_.get(), line + "\n"))
    give_up(error_from_errno(reason, "write", path_));
}

}  // namespace penstock
