#include <penstock/source.h>

namespace penstock {

const Provenance& RecordStream::locate() const {
  static const Provenance kNowhere;
  return kNowhere;
}

void RecordStream::skip(std::uint64_t count, ReadContext& context) {
  ReadItem item;
  while (count > 0 && next(item, context)) {
    item.status = Status();
    --count;
  }
}

void Source::read(std::span<ReadItem> items, ReadContext&) const {
  const Status status(ErrorCode::internal, "source '" + name() + "' has no index");
  for (ReadItem& item : items) item.status = status;
}

void Source::read_columns(std::span<const std::uint64_t> /*indices*/, Element& /*out*/) const {
  throw Error(ErrorCode::internal, "source '" + name() + "' has no columns");
}

void Source::read_texts(std::span<const std::uint64_t> /*indices*/,
                        std::span<std::string_view> /*texts*/, std::span<BufferPtr> /*owners*/,
                        std::vector<std::size_t>& /*left*/, ReadContext& /*context*/) const {
  throw Error(ErrorCode::internal, "source '" + name() + "' does not read byte strings");
}

std::uint64_t Source::record_bytes(std::uint64_t) const {
  return 0;
}

Provenance Source::locate(std::uint64_t index) const {
  return {.shard = name(), .index = static_cast<std::int64_t>(index), .stage = {}};
}

std::unique_ptr<RecordStream> Source::stream() const {
  throw Error(ErrorCode::internal, "source '" + name() + "' is not a stream");
}

}  // namespace penstock
