#include "pipeline/sources/inflate.h"

#include <algorithm>

#include <isa-l/igzip_lib.h>

namespace penstock {
namespace {

constexpr std::size_t kInput = 128 << 10;
/// The ratio is checked only after this many bytes.
constexpr std::uint64_t kRatioSlack = 1 << 20;

std::string reason_of(int code) {
  switch (code) {
    case ISAL_NEED_DICT:
      return "it needs a dictionary";
    case ISAL_INVALID_WRAPPER:
      return "invalid header";
    case ISAL_UNSUPPORTED_METHOD:
      return "its method is not deflate";
    case ISAL_INCORRECT_CHECKSUM:
      return "its checksum is wrong";
    default:
      return "invalid deflate data";
  }
}

}  // namespace

InflateStream::InflateStream(std::shared_ptr<File> file, Compression format, const Limits& limits)
    : file_(std::move(file)),
      format_(format),
      max_ratio_(limits.max_inflate_ratio),
      state_(std::make_unique<inflate_state>()),
      input_(kInput) {
  ::isal_inflate_init(state_.get());
}

InflateStream::~InflateStream() = default;

Error InflateStream::damaged(const std::string& what) const {
  return Error(ErrorCode::data_loss,
               "the compressed data is damaged near byte " +
                   std::to_string(read_ - state_->avail_in) + ": " + what,
               {.shard = file_->path()});
}

Error InflateStream::trailing() const {
  const std::uint64_t bytes = file_->info().size - member_;
  return Error(ErrorCode::data_loss,
               "trailing garbage: behind the end of the compressed data, at byte " +
                   std::to_string(member_) + ", the file has " + std::to_string(bytes) +
                   (bytes == 1 ? " more byte" : " more bytes"),
               {.shard = file_->path()});
}

bool InflateStream::refill() {
  const std::size_t n = std::min<std::uint64_t>(kInput, file_->info().size - read_);
  if (n == 0) return false;
  file_->read_exactly(read_, std::span(input_).first(n));
  read_ += n;
  state_->next_in = reinterpret_cast<std::uint8_t*>(input_.data());
  state_->avail_in = static_cast<std::uint32_t>(n);
  return true;
}

/// Moves to the next member. Returns false at the end of the file.
bool InflateStream::start_member() {
  while (any_member_) {  // zeros behind a member are padding
    if (state_->avail_in == 0 && !refill()) return false;
    if (*state_->next_in != 0) break;
    ++state_->next_in;
    --state_->avail_in;
  }
  if (state_->avail_in == 0 && !refill()) return false;
  member_ = read_ - state_->avail_in;
  constexpr std::uint8_t kGzip = 0x1f;  // the first byte of a member
  if (any_member_ && (format_ == Compression::zlib || *state_->next_in != kGzip)) throw trailing();
  ::isal_inflate_reset(state_.get());
  state_->crc_flag = format_ == Compression::gzip ? ISAL_GZIP : ISAL_ZLIB;
  in_member_ = any_member_ = true;
  return true;
}

void InflateStream::end_member() {
  in_member_ = false;
  // ISA-L keeps bytes that it read behind the end of zlib's data. Zeros are padding.
  const auto ahead = static_cast<std::uint64_t>(std::max(state_->read_in_length, 0)) / 8;
  for (std::uint64_t i = 0; i < ahead; ++i) {
    if ((state_->read_in >> (8 * i) & 0xff) == 0) continue;
    member_ = read_ - state_->avail_in - ahead + i;
    throw trailing();
  }
}

void InflateStream::inflate(std::span<std::byte> out, std::size_t& done) {
  if (state_->avail_in == 0) refill();
  constexpr std::size_t kMost = 1 << 30;  // ISA-L counts in 32 bits
  const auto room = static_cast<std::uint32_t>(std::min(out.size() - done, kMost));
  const std::uint32_t before = state_->avail_in;
  state_->next_out = reinterpret_cast<std::uint8_t*>(out.data() + done);
  state_->avail_out = room;
  const int code = ::isal_inflate(state_.get());
  const std::uint32_t got = room - state_->avail_out;
  done += got;
  produced_ += got;
  if (code == ISAL_INVALID_WRAPPER && member_ > 0) throw trailing();
  if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT) throw damaged(reason_of(code));
  if (produced_ > kRatioSlack && produced_ / max_ratio_ > read_)
    throw Error(ErrorCode::out_of_range,
                "more than " + std::to_string(max_ratio_) +
                    " bytes for each compressed one (max_inflate_ratio)",
                {.shard = file_->path()});
  if (state_->block_state == ISAL_BLOCK_FINISH) {
    end_member();
  } else if (got == 0 && before == state_->avail_in && read_ == file_->info().size) {
    throw Error(ErrorCode::data_loss, "truncated at byte " + std::to_string(read_),
                {.shard = file_->path()});
  }
}

std::size_t InflateStream::read(std::span<std::byte> out) {
  if (!failed_.ok()) throw failed_.error();
  std::size_t done = 0;
  try {
    while (done < out.size()) {
      if (!in_member_ && !start_member()) break;
      inflate(out, done);
    }
  } catch (const Error& error) {
    failed_ = error;
    if (done == 0) throw;
  }
  return done;
}

std::uint64_t InflateStream::most_left() const noexcept {
  const std::uint64_t input = file_->info().size - read_ + state_->avail_in;
  // The bytes that ISA-L buffers: a window, and the longest match.
  constexpr std::uint64_t kHeld = 128 << 10;
  return input * std::max<std::uint64_t>(max_ratio_, 1) + kHeld + kRatioSlack;
}

Compression compression_of(std::span<const std::byte> head) noexcept {
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(head[i]); };
  if (head.size() >= 3 && byte(0) == 0x1f && byte(1) == 0x8b && byte(2) == 8)
    return Compression::gzip;
  const bool zlib =
      head.size() >= 2 && (byte(0) & 0x8f) == 8 && (byte(0) * 256 + byte(1)) % 31 == 0;
  return zlib ? Compression::zlib : Compression::none;
}

}  // namespace penstock
