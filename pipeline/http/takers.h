// Destinations for the bodies of answers.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "pipeline/http/attempt.h"
#include "pipeline/http/client.h"
#include "pipeline/http/patience.h"

namespace penstock::http {

/// Finds the properties of an object by the answer to a request for its first byte.
class ProbeTaker final : public BodyTaker {
 public:
  /// `rangeless`: the server is known to support no ranges. `gz`: see WantedRange.
  ProbeTaker(bool rangeless, bool gz) : rangeless_(rangeless), gz_(gz) {}

  Judgement judge(const AnswerHead& head) const override {
    // A server without ranges answers with the whole object, which tells as much, unless the answer
    // is a page that a proxy sent instead. But any server may give such an answer once, so it is
    // believed only after several in a row.
    const bool plain = http::judge_whole(head, gz_).verdict == Verdict::good;
    if (head.range || !plain || head.type.starts_with("text/html"))
      return http::judge(head, {0, 0, {}, 0, gz_});
    wholes_ = head.content_length == size_ ? wholes_ + 1 : 1;
    size_ = head.content_length;
    if (!rangeless_ && wholes_ <= kRefusalsAsked) return {Verdict::refused, "HTTP 200 for a range"};
    counts_ = !size_;
    return {counts_ ? Verdict::good : Verdict::empty, {}};
  }
  /// Returns true if the object was found by an answer without a range.
  bool is_rangeless() const noexcept {
    return wholes_ > 0 && (rangeless_ || wholes_ > kRefusalsAsked);
  }
  /// Returns the size of the body, if the answer had to be read to its end to know it.
  std::optional<std::uint64_t> counted() const noexcept {
    return counts_ ? std::optional(taken_) : std::nullopt;
  }
  bool take(std::span<const std::byte> bytes) noexcept override {
    taken_ += bytes.size();
    return taken_ <= (counts_ ? kMostCounted : 1);
  }
  bool full() const noexcept override { return counts_ || taken_ == 1; }
  Judgement too_long() const override {
    if (!counts_) return BodyTaker::too_long();
    return {Verdict::unusable,
            "the server sends neither ranges nor a length, and the file has more than 64 MiB"};
  }
  void restart() noexcept override { taken_ = 0; }

 private:
  static constexpr std::uint64_t kMostCounted = 64 << 20;

  const bool rangeless_;
  const bool gz_;
  mutable int wholes_ = 0;                     // consecutive answers with the whole object
  mutable std::optional<std::uint64_t> size_;  // size in the last of them
  mutable bool counts_ = false;
  std::uint64_t taken_ = 0;
};

/// Copies the bytes of one range to its parts, and drops those between them.
class PartsTaker final : public BodyTaker {
 public:
  PartsTaker(const RangeGet& get, bool by_date) : get_(get), by_date_(by_date) {}

  Judgement judge(const AnswerHead& head) const override {
    const FileInfo& info = get_.object->info;
    return http::judge(head, {.first = get_.first(),
                              .last = get_.end() - 1,
                              .size = info.size,
                              .version = info.inode,
                              .gz = is_gz_name(get_.object->path),
                              .by_date = by_date_,
                              .modified = get_.object->modified});
  }
  bool take(std::span<const std::byte> bytes) noexcept override {
    if (bytes.size() > get_.end() - at_) return false;
    while (!bytes.empty()) {
      const RangePart& part = get_.parts[part_];
      const std::uint64_t end = part.offset + part.size;
      const bool within = at_ >= part.offset;
      const std::size_t n =
          std::min<std::uint64_t>(bytes.size(), (within ? end : part.offset) - at_);
      if (within) std::memcpy(part.out + (at_ - part.offset), bytes.data(), n);
      bytes = bytes.subspan(n);
      at_ += n;
      if (at_ == end) ++part_;
    }
    return true;
  }
  bool full() const noexcept override { return at_ == get_.end(); }
  void restart() noexcept override {
    at_ = get_.first();
    part_ = 0;
  }

 private:
  const RangeGet& get_;
  const bool by_date_;
  std::uint64_t at_ = 0;
  std::size_t part_ = 0;
};

/// Collects a small object as text.
class TextTaker final : public BodyTaker {
 public:
  explicit TextTaker(std::size_t most) : most_(most) {}

  Judgement judge(const AnswerHead& head) const override {
    if (head.content_length.value_or(0) > most_)
      return {Verdict::unusable, "the file has more than " + std::to_string(most_) + " bytes"};
    return judge_whole(head);
  }
  bool take(std::span<const std::byte> bytes) noexcept override try {
    if (bytes.size() > most_ - text_.size()) return false;
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  } catch (...) {
    return false;
  }
  bool full() const noexcept override { return true; }
  void restart() noexcept override { text_.clear(); }
  std::string& text() noexcept { return text_; }

 private:
  const std::size_t most_;
  std::string text_;
};

}  // namespace penstock::http
