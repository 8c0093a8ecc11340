#include "pipeline/engine/quarantine.h"

#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/file_system.h>
#include <penstock/log.h>

#include "pipeline/io/durable.h"

namespace penstock {
namespace {

constexpr std::uint64_t kMostLogged = 1ULL << 30;

/// Bytes of the UTF-8 sequence at the front of `text`; 0 if there is none.
std::size_t sequence_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return size;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = sequence_at(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

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

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t size = sequence_at(text);
    const auto lead = static_cast<unsigned char>(text.front());
    if (size == 0) {
      out += "\xEF\xBF\xBD";
    } else if (lead == '"' || lead == '\\') {
      out += {'\\', static_cast<char>(lead)};
    } else if (lead < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", lead);
      out += escape.data();
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out + "\"";
}

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
  static_cast<void>(replaceable(path_));  // a pipe would be waited for
  fd_ =
      UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!fd_) throw error_from_errno(errno, "write", path_);
  const auto bytes = make_file_system("pread")->open(path_)->read_all(kMostLogged);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // A line that was torn by a crash is ended, so that it spoils no other.
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
  log(LogLevel::warning, std::string("the quarantine goes on without its file: ") + error.what());
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
