#include "pipeline/http/upload.h"

#include <algorithm>

#include <penstock/error.h>
#include <penstock/log.h>

// Sources: API_CreateMultipartUpload, API_UploadPart, API_CompleteMultipartUpload and
// API_AbortMultipartUpload of https://docs.aws.amazon.com/AmazonS3/latest/API.

namespace penstock::http {
namespace {

constexpr std::size_t kMostParts = 10'000;
constexpr std::size_t kPartsOfASize = 2'000;
constexpr std::chrono::seconds kToAbort{10};

/// Returns the text escaped for XML.
std::string in_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>') {
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::size_t Upload::part_bytes(std::size_t number, std::size_t first) noexcept {
  return std::max<std::size_t>(1, first) << ((number - 1) / kPartsOfASize);
}

Upload::Upload(ObjectPlace place) : place_(std::move(place)), mark_(new_write_mark()) {}

Upload::~Upload() {
  const bool in_between = !under_way_.empty();
  under_way_.clear();
  if (query_.empty()) return;
  abort();
  if (in_between)
    abort();  // the service may have accepted a part that was cancelled after the first abort
}

template <typename Step>
void Upload::take(const Step& step) {
  if (ended_)
    throw Error(ErrorCode::unavailable, "can't write: the object is already written, or has failed",
                {.shard = place_.path});
  ended_ = true;
  step();
}

void Upload::append(std::span<const std::byte> bytes) {
  take([&] { fill(bytes); });
  ended_ = false;
}

void Upload::commit() {
  take([&] {
    if (query_.empty()) {
      ObjectWrite(place_,
                  {.headers = {write_mark_header(mark_)}, .content = filling_, .wants_etag = true})
          .perform();
      return;
    }
    if (!filling_.empty()) send_part();
    while (!under_way_.empty()) finish_oldest();
    complete();
    query_.clear();
  });
}

void Upload::fill(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t size =
        part_bytes(etags_.size() + under_way_.size() + 1, place_.client->options().part_bytes);
    if (filling_.size() >= size) {
      send_part();
      continue;
    }
    const std::size_t n = std::min(bytes.size(), size - filling_.size());
    // A large object is filled part by part; a small one does not take a part's memory.
    if (filling_.capacity() < filling_.size() + n)
      filling_.reserve(query_.empty() ? std::min(size, 2 * (filling_.size() + n)) : size);
    filling_.append(reinterpret_cast<const char*>(bytes.data()), n);
    bytes = bytes.subspan(n);
  }
}

void Upload::begin() {
  ObjectWrite asked(place_, {.method = "POST",
                             .query = "uploads",
                             .headers = {write_mark_header(mark_)},
                             .element = "InitiateMultipartUpload"});
  const std::string id = element_of(asked.perform(), "UploadId");
  // Other characters would have to be written differently in XML.
  if (id.empty() || id.find_first_of("&\r\n\t ") != id.npos)
    throw Error(ErrorCode::unavailable, "can't write: the store returned an invalid upload ID",
                {.shard = place_.path});
  query_ = "uploadId=" + percent_encoded(id, false);
}

void Upload::send_part() {
  if (query_.empty()) begin();
  const std::size_t most =
      std::max(place_.client->options().upload_bytes, 2 * filling_.size()) - filling_.size();
  while (!under_way_.empty() && (under_way_.front().write->arrived() || bytes_under_way_ > most))
    finish_oldest();
  const std::size_t number = etags_.size() + under_way_.size() + 1;
  if (number > kMostParts)
    throw Error(ErrorCode::out_of_range,
                "can't write: an upload has 10,000 parts at most, which are " +
                    std::to_string(size_ >> 30) + " GiB here: write more and smaller files",
                {.shard = place_.path});
  Part& part = under_way_.emplace_back();
  part.bytes = std::move(filling_);
  filling_.clear();
  bytes_under_way_ += part.bytes.size();
  part.write = std::make_unique<ObjectWrite>(
      place_, ObjectRequest{.query = "partNumber=" + std::to_string(number) + '&' + query_,
                            .content = part.bytes,
                            .wants_etag = true});
  part.write->begin();
}

void Upload::finish_oldest() {
  Part& part = under_way_.front();
  part.write->finish();
  etags_.push_back(part.write->head().etag);
  bytes_under_way_ -= part.bytes.size();
  under_way_.pop_front();
}

void Upload::complete() {
  std::string xml = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < etags_.size(); ++i)
    xml += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
           in_xml(etags_[i]) + "</ETag></Part>";
  xml += "</CompleteMultipartUpload>";
  try {
    ObjectWrite(place_, {.method = "POST",
                         .query = query_,
                         .content = xml,
                         .element = "CompleteMultipartUpload",
                         .may_be_silent = true})
        .perform();
  } catch (const Error&) {
    // If the service carried out an earlier request whose answer was lost, it no longer knows the
    // upload.
    if (!is_there()) throw;
  }
}

bool Upload::is_there() {
  try {
    ObjectWrite asked(place_, {.method = "HEAD"});
    asked.perform();
    return asked.head().write_mark == mark_ && asked.head().content_length == size_;
  } catch (const Error&) {
    return false;
  }
}

void Upload::abort() noexcept {
  try {
    ObjectWrite(place_, {.method = "DELETE", .query = query_, .also = {404}, .deadline = kToAbort})
        .perform();
  } catch (const std::exception& error) {
    try {
      log(LogLevel::warning, std::string("an upload could not be aborted, so the store keeps its "
                                         "hidden parts: ") +
                                 error.what());
    } catch (...) {  // no memory to say so
    }
  }
}

}  // namespace penstock::http
