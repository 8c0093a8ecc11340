#include "tools/penstock/run/event_file.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <new>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/crc32c.h>
#include <penstock/internal/posix.h>
#include <penstock/log.h>

namespace penstock::tool {
namespace {

constexpr std::size_t kEventBuffer = 64 << 10;

enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename T>
void put_fixed(std::string& out, T value) {
  for (unsigned i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, unsigned field, WireType type) {
  put_varint(out, field << 3 | type);
}

void put_bytes(std::string& out, unsigned field, std::string_view value) {
  put_key(out, field, kBytes);
  put_varint(out, value.size());
  out += value;
}

std::string event(double wall_time, std::uint64_t step) {
  std::string out;
  put_key(out, 1, kFixed64);
  put_fixed(out, std::bit_cast<std::uint64_t>(wall_time));
  put_key(out, 2, kVarint);
  put_varint(out, step);
  return out;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string record_of(std::string_view message) {
  std::string length;
  put_fixed(length, static_cast<std::uint64_t>(message.size()));
  std::string record = length;
  put_fixed(record, mask_crc32c(crc32c(std::as_bytes(std::span(length)))));
  record += message;
  put_fixed(record, mask_crc32c(crc32c(std::as_bytes(std::span(message)))));
  return record;
}

}  // namespace

std::string first_event(double wall_time) {
  std::string message = event(wall_time, 0);
  put_bytes(message, 3, "brain.Event:2");
  return record_of(message);
}

std::string scalar_event(std::uint64_t step, double wall_time, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_key(value, 2, kFixed32);
    put_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    put_bytes(summary, 1, value);
  }
  std::string message = event(wall_time, step);
  put_bytes(message, 5, summary);
  return record_of(message);
}

std::string start_event(std::uint64_t step, double wall_time) {
  std::string session;
  put_key(session, 1, kVarint);
  put_varint(session, 1);  // SessionLog.START
  std::string message = event(wall_time, step);
  put_bytes(message, 7, session);
  return record_of(message);
}

namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// Returns a number for a name after all that the folder has: the time in seconds, or more if
/// another run began in this second, or a clock was set back.
std::int64_t number_after(const std::string& folder) {
  auto number = static_cast<std::int64_t>(now());
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end; at != end;
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    std::int64_t other = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other);
    if (other >= number && other < INT32_MAX) number = other + 1;
  }
  return number;
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::uint64_t first_step) {
  refuse_scheme(folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw error_from_errno(error.value(), "make the folder", folder);
  const std::string name = folder + "/" + std::string(kPrefix) +
                           std::to_string(number_after(folder)) + ".penstock." +
                           std::to_string(::getpid());
  for (int number = 0; !fd_; ++number) {
    path_ = number == 0 ? name : name + "." + std::to_string(number);
    fd_ =
        UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (fd_ || errno == EEXIST || errno == EINTR) continue;
    const Error failed = error_from_errno(errno, "write", path_);
    if (failed.code() != ErrorCode::resource_exhausted) throw failed;
    give_up(failed);
    return;
  }
  write(first_event(now()));
  write(start_event(first_step, now()));
  flush();
}

void EventFile::add(std::uint64_t step, double wall_time, const Scalars& scalars) {
  write(scalar_event(step, wall_time, scalars));
}

void EventFile::write(std::string_view record) {
  buffer_ += record;
  if (buffer_.size() >= kEventBuffer) flush();
}

void EventFile::flush() noexcept {
  const int reason = fd_ ? write_all(fd_.get(), buffer_) : 0;
  buffer_.clear();
  if (reason == 0) return;
  try {
    give_up(error_from_errno(reason, "write", path_));
  } catch (const std::bad_alloc&) {
    fd_ = UniqueFd();
    log(LogLevel::warning, "TensorBoard's file is no longer written: it can't be written");
  }
}

void EventFile::give_up(const Error& error) {
  fd_ = UniqueFd();
  log(LogLevel::warning, std::string("TensorBoard's file is no longer written: ") + error.what());
}

}  // namespace penstock::tool
