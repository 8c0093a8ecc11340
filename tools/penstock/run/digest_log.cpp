#include "tools/penstock/run/digest_log.h"

#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include <penstock/durable_file.h>
#include <penstock/file_system.h>

#include "tools/penstock/report/digest.h"
#include "tools/penstock/run/outputs.h"

namespace penstock::tool {
namespace {

constexpr std::size_t kBuffer = 64 << 10;

/// Opens and locks a file, and keeps its first `bytes`.
UniqueFd open_file(const std::string& path, std::uint64_t bytes) {
  UniqueFd fd = open_in_place(path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) throw error_from_errno(errno, "write", path);
  if (!S_ISREG(st.st_mode)) return fd;
  if (try_lock(fd.get(), path) == Locked::by_another)
    throw Error(ErrorCode::unavailable, lock_holder(fd.get()) + " is writing the file",
                {.shard = path});
  const auto end = static_cast<off_t>(bytes);
  if (::ftruncate(fd.get(), end) != 0 || ::lseek(fd.get(), end, SEEK_SET) != end)
    throw error_from_errno(errno, "cut", path);
  return fd;
}

/// Parses a line such as "0 12 64 0123456789abcdef". Returns nothing if it has another form.
std::optional<DigestLine> parse_line(std::string_view line) {
  DigestLine parsed;
  for (std::uint64_t* const number : {&parsed.epoch, &parsed.batch, &parsed.elements}) {
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), *number);
    const auto size = static_cast<std::size_t>(end - line.data());
    if (error != std::errc() || size == line.size() || line[size] != ' ') return std::nullopt;
    line.remove_prefix(size + 1);
  }
  const auto [end, error] =
      std::from_chars(line.data(), line.data() + line.size(), parsed.digest, 16);
  if (error != std::errc() || line.size() != 16 || end != line.data() + line.size())
    return std::nullopt;
  return parsed;
}

}  // namespace

std::vector<DigestLine> digests_in(const std::string& path, std::uint64_t bytes) {
  const auto file = default_file_system()->open(path);
  if (bytes == UINT64_MAX) bytes = file->info().size;
  if (file->info().size < bytes) {
    throw Error(ErrorCode::data_loss,
                "the file has " + std::to_string(file->info().size) +
                    " bytes, but the state expects " + std::to_string(bytes),
                {.shard = path});
  }
  std::string contents(bytes, '\0');
  file->read_exactly(0, {reinterpret_cast<std::byte*>(contents.data()), contents.size()});
  std::vector<DigestLine> lines;
  for (std::string_view rest = contents; !rest.empty();) {
    const std::size_t size = rest.find('\n');
    const auto line = size < rest.size() ? parse_line(rest.substr(0, size)) : std::nullopt;
    if (!line) {
      throw Error(
          ErrorCode::data_loss, "not a line of digests",
          {.shard = path, .offset = static_cast<std::int64_t>(contents.size() - rest.size())});
    }
    lines.push_back(*line);
    rest.remove_prefix(size + 1);
  }
  return lines;
}

DigestLog::DigestLog(std::string path) : DigestLog(std::move(path), 0) {}

DigestLog::DigestLog(std::string path, std::uint64_t bytes)
    : path_(std::move(path)), fd_(open_file(path_, bytes)), bytes_(bytes) {}

void DigestLog::add(std::uint64_t epoch, std::uint64_t batch, std::uint64_t elements,
                    std::uint64_t digest) {
  const std::size_t before = buffer_.size();
  buffer_ += std::to_string(epoch) + ' ' + std::to_string(batch) + ' ' + std::to_string(elements) +
             ' ' + hex16(digest) + '\n';
  bytes_ += buffer_.size() - before;
  if (buffer_.size() >= kBuffer || !begun_) flush();
  begun_ = true;
}

void DigestLog::flush() {
  if (const int reason = write_all(fd_.get(), buffer_))
    throw error_from_errno(reason, "write", path_);
  buffer_.clear();
}

void DigestLog::sync() {
  flush();
  if (const int error = sync_file(fd_.get(), path_)) throw error_from_errno(error, "sync", path_);
}

}  // namespace penstock::tool
