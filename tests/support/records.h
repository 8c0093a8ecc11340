// TFRecords, written byte by byte, and sources, read to their end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/source.h>

#include "tests/support/context.h"

namespace penstock::test {

/// Returns `value` as little-endian bytes.
template <typename T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
  return out;
}

/// Computes the masked CRC32C bit by bit, to share nothing with the code under test.
inline std::uint32_t tfrecord_crc(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

inline std::string tfrecord_header(std::uint64_t length) {
  const std::string bytes = little_endian(length);
  return bytes + little_endian(tfrecord_crc(bytes));
}

inline std::string tfrecord_of(std::string_view data) {
  return tfrecord_header(data.size()) + std::string(data) + little_endian(tfrecord_crc(data));
}

inline std::string tfrecords_of(const std::vector<std::string>& records) {
  std::string out;
  for (const std::string& record : records) out += tfrecord_of(record);
  return out;
}

/// The result of reading a record: its element's components as text, or its error.
struct ReadOutcome {
  std::vector<std::string> values;
  std::optional<Error> error;

  /// Returns the first component, or "!" and the error's code.
  std::string text() const {
    return error ? "!" + std::string(name_of(error->code())) : values.at(0);
  }
};

inline ReadOutcome outcome_of(const ReadItem& item) {
  ReadOutcome out;
  if (!item.status.ok()) {
    out.error = item.status.error();
    return out;
  }
  for (std::size_t i = 0; i < item.element.size(); ++i) {
    const Tensor& value = item.element[i];
    if (value.dtype() == DType::bytes) {
      out.values.emplace_back(value.bytes_at());
    } else if (value.dtype() == DType::i64 && value.volume() == 1) {
      out.values.push_back(std::to_string(value.item<std::int64_t>()));
    } else {
      out.values.emplace_back(reinterpret_cast<const char*>(value.data()), value.nbytes());
    }
  }
  return out;
}

inline std::vector<ReadOutcome> read_indices(const Source& source,
                                             const std::vector<std::uint64_t>& indices) {
  HeapContext context;
  std::vector<ReadItem> items(indices.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i].index = indices[i];
  source.read(items, context);
  std::vector<ReadOutcome> out;
  for (const ReadItem& item : items) out.push_back(outcome_of(item));
  return out;
}

/// Returns all records in order. Stops at `most`, so that an endless stream is a failure, not a
/// hang.
inline std::vector<ReadOutcome> read_source(const Source& source, std::size_t most = 100'000) {
  std::vector<ReadOutcome> out;
  if (const auto size = source.size()) {
    std::vector<std::uint64_t> indices;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(*size, most); ++i) indices.push_back(i);
    return read_indices(source, indices);
  }
  HeapContext context;
  const auto stream = source.stream();
  ReadItem item;
  while (out.size() < most && stream->next(item, context)) {
    out.push_back(outcome_of(item));
    item = ReadItem();
  }
  return out;
}

inline std::vector<std::string> texts_of(const std::vector<ReadOutcome>& outcomes) {
  std::vector<std::string> out;
  for (const ReadOutcome& outcome : outcomes) out.push_back(outcome.text());
  return out;
}

}  // namespace penstock::test
