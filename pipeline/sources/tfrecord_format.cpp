#include "pipeline/sources/tfrecord_format.h"

#include <cstring>

#include <penstock/internal/crc32c.h>
#include <penstock/internal/other_format.h>

#include "pipeline/sources/window.h"

namespace penstock::tfrecord_file {
namespace {

template <typename T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

class Scanner {
 public:
  Scanner(File& file, const Limits& limits) : window_(file), limits_(limits) {}

  ShardIndex run() {
    try {
      while (at_ < window_.file_size() && next()) {
      }
    } catch (const Error& error) {
      index_.lasting = false;
      fault(error.code(), error.cause() + "; " + lost());
    }
    return std::move(index_);
  }

 private:
  /// Adds the record at at_ and moves behind it. Returns false if the next record can't be found.
  bool next() {
    if (index_.entries.size() >= limits_.max_members) {
      fault(ErrorCode::out_of_range,
            "more than " + std::to_string(limits_.max_members) + " records; " + lost());
      return false;
    }
    const std::uint64_t rest = window_.file_size() - at_;
    if (rest < kHeaderBytes) {
      fault(ErrorCode::data_loss, header_error_at(at_) + truncated());
      return false;
    }
    std::optional<std::uint64_t> length = parse_header(window_.at(at_, kHeaderBytes));
    if (!length) length = parse_header(window_.at_uncached(at_, kHeaderBytes));
    if (!length) {
      fault(ErrorCode::data_loss, std::string(header_error_at(at_)) + "corrupt record at byte " +
                                      std::to_string(at_) + ": its length fails its CRC32C; " +
                                      lost());
      return false;
    }
    if (rest < kFrameBytes || *length > rest - kFrameBytes) {
      fault(ErrorCode::data_loss, truncated() + " of its " + std::to_string(*length));
      return false;
    }
    if (*length > limits_.max_record_bytes) {
      fault(ErrorCode::out_of_range, "a record of " + std::to_string(*length) +
                                         " bytes exceeds max_record_bytes, " +
                                         std::to_string(limits_.max_record_bytes));
    } else {
      index_.entries.push_back({at_, *length + kFrameBytes});
    }
    at_ += *length + kFrameBytes;
    return true;
  }

  void fault(ErrorCode code, std::string cause) {
    index_.faults.push_back({index_.entries.size(), code, std::move(cause)});
    index_.entries.push_back({at_, 0});
  }

  std::string lost() const {
    return "the shard's last " + std::to_string(window_.file_size() - at_) + " bytes are lost";
  }
  std::string truncated() const {
    return "truncated at byte " + std::to_string(window_.file_size()) + ": the record at byte " +
           std::to_string(at_) + " has only " + std::to_string(window_.file_size() - at_) +
           " bytes";
  }

  Window window_;
  const Limits& limits_;
  std::uint64_t at_ = 0;
  ShardIndex index_;
};

}  // namespace

std::optional<std::uint64_t> parse_header(std::span<const std::byte> header) noexcept {
  if (mask_crc32c(crc32c(header.first(8))) != load<std::uint32_t>(header.data() + 8)) return {};
  return load<std::uint64_t>(header.data());
}

const char* header_error_at(std::uint64_t at) noexcept {
  return at == 0 ? "not a TFRecord file, or " : "";
}

bool data_is_sound(std::span<const std::byte> data_and_footer) noexcept {
  const std::size_t size = data_and_footer.size() - kFooterBytes;
  return mask_crc32c(crc32c(data_and_footer.first(size))) ==
         load<std::uint32_t>(data_and_footer.data() + size);
}

ShardIndex scan(File& file, const Limits& limits) {
  ShardIndex index = Scanner(file, limits).run();
  if (!index.faults.empty() && index.faults.front().record == 0) {
    IndexFault& first = index.faults.front();
    const OtherFormat* const other = find_other_format(file);
    if (other != nullptr && first.code == ErrorCode::data_loss)
      first.cause = "this is " + other->text();
  }
  return index;
}

}  // namespace penstock::tfrecord_file
