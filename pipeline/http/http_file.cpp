#include "pipeline/http/http_file.h"

#include <algorithm>
#include <cstring>

#include "pipeline/io/posix.h"

namespace penstock::http {
namespace {

constexpr std::size_t kSmallRead = 64 << 10;
constexpr std::size_t kFirstBlock = 256 << 10;
constexpr std::size_t kMostBlock = 16 << 20;

/// Bytes in blocks of all files.
std::atomic<std::size_t>& bytes_ahead() noexcept {
  static std::atomic<std::size_t> bytes{0};
  return bytes;
}

}  // namespace

HttpFile::~HttpFile() {
  const MutexLock lock(mutex_);
  if (block_ != nullptr) bytes_ahead() -= block_->bytes.size();
}

void HttpFile::read(std::span<ReadRequest> requests) {
  if (!read_ahead(requests)) fetch(requests, false);
}

void HttpFile::read_together(std::span<Reads> all) {
  std::vector<ObjectRead> reads;
  std::vector<Reads> asked;
  for (const Reads& one : all) {
    auto& file = static_cast<HttpFile&>(*one.file);
    if (file.read_ahead(one.requests)) continue;
    reads.push_back({&file.object_, file.wanted(one.requests)});
    asked.push_back(one);
  }
  read_objects(*client_, reads, false);
  for (std::size_t i = 0; i < asked.size(); ++i)
    static_cast<HttpFile&>(*asked[i].file).answer(asked[i].requests, reads[i].gets);
}

void HttpFile::fetch(std::span<ReadRequest> requests, bool fresh) {
  ObjectRead read{&object_, wanted(requests)};
  read_objects(*client_, {&read, 1}, fresh);
  answer(requests, read.gets);
}

std::vector<RangePart> HttpFile::wanted(std::span<ReadRequest> requests) const {
  std::vector<RangePart> parts;
  for (ReadRequest& request : requests) {
    request.status = Status();
    if (request.offset > info().size || request.size > info().size - request.offset) {
      request.status = past_end_error(path(), info().size, request);
    } else if (request.size > 0) {
      parts.push_back({request.offset, request.size, request.out});
    }
  }
  return parts;
}

void HttpFile::answer(std::span<ReadRequest> requests, std::span<const RangeGet> gets) {
  for (const RangeGet& get : gets) {
    if (get.status.ok()) continue;
    if (get.status.error().code() == ErrorCode::changed) changed_ = true;
    for (ReadRequest& request : requests) {
      const bool part_of_it =
          request.offset < get.end() && get.first() < request.offset + request.size;
      if (part_of_it && request.status.ok()) request.status = get.status;
    }
  }
}

bool HttpFile::read_ahead(std::span<ReadRequest> requests) {
  if (requests.size() != 1 || requests[0].size > kSmallRead) return false;
  ReadRequest& request = requests[0];
  const std::size_t most_all = client_->options().read_ahead_bytes;
  if (most_all == 0 || object_.rangeless) return false;
  std::shared_ptr<Block> block;
  std::size_t window = 0;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t skip = client_->pace().bytes_of_a_request();
    const bool may_continue = request.offset >= last_end_ && request.offset - last_end_ <= skip;
    const std::uint64_t end = request.offset + request.size;
    if (block_ != nullptr && block_->holds(request)) {
      block = block_;
      last_end_ = end;
    } else {
      const bool within = end >= request.offset && end <= info().size;
      // The second consecutive read is the first sign of a scan. A read at 0 likely begins one.
      const bool scan = may_continue && within && request.size > 0 && !filling_;
      last_end_ = end;
      if (!scan) return false;
      window = std::clamp<std::size_t>(2 * window_, kFirstBlock, kMostBlock);
      const std::size_t held = block_ != nullptr ? block_->bytes.size() : 0;
      const std::size_t others = bytes_ahead() - held;
      window = std::max(std::min(window, most_all > others ? most_all - others : 0), request.size);
      window = std::min<std::uint64_t>(window, info().size - request.offset);
      filling_ = true;
    }
  }
  if (block == nullptr) {
    request.status = Status();
    try {
      block = next_block(request.offset, window, request.status);
    } catch (...) {  // no memory for it: read just what is wanted
    }
    const MutexLock lock(mutex_);
    filling_ = false;
    if (block == nullptr) return !request.status.ok();
    if (block_ != nullptr) bytes_ahead() -= block_->bytes.size();
    bytes_ahead() += block->bytes.size();
    block_ = block;
    window_ = block->bytes.size();
  }
  std::memcpy(request.out, block->bytes.data() + (request.offset - block->offset), request.size);
  request.status = Status();
  return true;
}

std::shared_ptr<HttpFile::Block> HttpFile::next_block(std::uint64_t offset, std::size_t size,
                                                      Status& failure) {
  auto block = std::make_shared<Block>();
  block->offset = offset;
  block->bytes.resize(size);
  ReadRequest all{offset, size, block->bytes.data(), {}};
  fetch({&all, 1}, false);
  if (all.status.ok()) return block;
  // A server that gave nothing in all that time would not give less, either.
  if (all.status.error().code() == ErrorCode::unavailable) failure = all.status;
  return nullptr;
}

}  // namespace penstock::http
