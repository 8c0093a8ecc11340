#include "pipeline/sources/index_file.h"

#include <bit>
#include <cstring>

#include <penstock/internal/crc32c.h>
#include <penstock/remote_files.h>

#include "pipeline/io/durable.h"

namespace penstock {
namespace {

// Layout, little-endian: magic, size u64, contents u64, kind, entries, faults, notes, crc32c u32 of
// all before. A list is its count u64 and its items; a text its length u64 and its bytes; an entry
// two u64; a fault record u64, code u64, cause.
static_assert(std::endian::native == std::endian::little);

constexpr char kIndexMagic[8] = {'P', 'N', 'S', 'T', 'I', 'D', 'X', '2'};
constexpr std::uint64_t kMostBytes = 8ULL << 30;

class Writer {
 public:
  void bytes(const void* data, std::size_t size) {
    const auto* const from = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), from, from + size);
  }
  void number(std::uint64_t value) { bytes(&value, sizeof(value)); }
  void text(const std::string& value) {
    number(value.size());
    bytes(value.data(), value.size());
  }
  void reserve(std::size_t size) { out_.reserve(size); }
  std::span<const std::byte> finish() {
    const std::uint32_t crc = crc32c(out_);
    bytes(&crc, sizeof(crc));
    return out_;
  }

 private:
  std::vector<std::byte> out_;
};

/// Throws Error{data_loss} for a value that does not fit in the remaining bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> bytes(std::uint64_t size) {
    if (size > rest_.size()) throw Error(ErrorCode::data_loss, "index too short");
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::uint64_t number() {
    std::uint64_t value;
    std::memcpy(&value, bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  /// A count of items that take at least `least` bytes each.
  std::uint64_t count(std::size_t least) {
    const std::uint64_t n = number();
    if (n > rest_.size() / least) throw Error(ErrorCode::data_loss, "index too short");
    return n;
  }
  std::string text() {
    const std::span<const std::byte> taken = bytes(number());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  bool done() const noexcept { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

/// The part before the entries, and the number of bytes it takes in the file.
struct Head {
  std::vector<std::byte> bytes;
  std::uint64_t entries = 0;
};

std::optional<Head> read_head(File& file, const ShardContents& shard, const std::string& kind) {
  Head head;
  head.bytes.resize(sizeof(kIndexMagic) + 4 * sizeof(std::uint64_t) + kind.size());
  if (file.info().size < head.bytes.size()) return {};
  file.read_exactly(0, head.bytes);
  Reader in(head.bytes);
  if (std::memcmp(in.bytes(sizeof(kIndexMagic)).data(), kIndexMagic, sizeof(kIndexMagic)) != 0)
    return {};
  if (in.number() != shard.size) return {};
  if (in.number() != shard.hash || in.text() != kind) return {};
  head.entries = in.number();
  return head;
}

/// Reads the part after the entries. Returns false if it is malformed.
bool parse_tail(std::span<const std::byte> bytes, ShardIndex& index) {
  Reader in(bytes);
  index.faults.resize(in.count(3 * sizeof(std::uint64_t)));
  for (IndexFault& fault : index.faults) {
    fault.record = in.number();
    const std::uint64_t code = in.number();
    fault.code = static_cast<ErrorCode>(code);
    fault.cause = in.text();
    const bool ascends = &fault == index.faults.data() || (&fault)[-1].record < fault.record;
    if (!ascends || fault.record >= index.entries.size()) return false;
    if (!fault.lasting() || code != static_cast<std::uint64_t>(fault.code) || fault.cause.empty())
      return false;
  }
  index.notes.resize(in.count(sizeof(std::uint64_t)));
  for (std::string& note : index.notes) note = in.text();
  return in.done();
}

/// True if a scan could have found this.
bool is_possible(const ShardIndex& index, const ShardContents& shard, const IndexOptions& options) {
  if (index.notes.size() < options.least_notes) return false;
  auto fault = index.faults.begin();
  for (std::uint64_t i = 0; i < index.entries.size(); ++i) {
    const IndexEntry& entry = index.entries[i];
    if (entry.offset > shard.size || entry.size > shard.size - entry.offset) return false;
    if (fault != index.faults.end() && fault->record == i) {
      ++fault;
    } else if (entry.size < options.least_entry_bytes || entry.size > options.most_entry_bytes) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<ShardIndex> load_index(const std::string& path, const ShardContents& shard,
                                     const IndexOptions& options) noexcept try {
  const std::shared_ptr<File> file = default_file_system()->open(path);
  const std::uint64_t size = file->info().size;
  const std::optional<Head> head =
      size <= kMostBytes ? read_head(*file, shard, options.kind) : std::nullopt;
  std::uint32_t crc;
  if (!head || size - head->bytes.size() < sizeof(crc)) return {};
  std::uint64_t rest = size - head->bytes.size() - sizeof(crc);
  if (head->entries > rest / sizeof(IndexEntry)) return {};
  // Entries are read to where they stay: there may be a gigabyte of them.
  ShardIndex index;
  index.entries.resize(head->entries);
  const auto entries = std::as_writable_bytes(std::span(index.entries));
  file->read_exactly(head->bytes.size(), entries);
  rest -= entries.size();
  std::vector<std::byte> tail(rest + sizeof(crc));
  file->read_exactly(size - tail.size(), tail);
  std::memcpy(&crc, tail.data() + rest, sizeof(crc));
  tail.resize(rest);
  if (crc != crc32c(tail, crc32c(entries, crc32c(head->bytes)))) return {};
  if (!parse_tail(tail, index) || !is_possible(index, shard, options)) return {};
  return index;
} catch (const std::exception&) {
  return {};
}

bool save_index(const std::string& path, const ShardContents& shard, const std::string& kind,
                const ShardIndex& index) noexcept try {
  Writer out;
  out.reserve(index.entries.size() * sizeof(IndexEntry) + 1024);
  out.bytes(kIndexMagic, sizeof(kIndexMagic));
  out.number(shard.size);
  out.number(shard.hash);
  out.text(kind);
  out.number(index.entries.size());
  out.bytes(index.entries.data(), index.entries.size() * sizeof(IndexEntry));
  out.number(index.faults.size());
  for (const IndexFault& fault : index.faults) {
    out.number(fault.record);
    out.number(static_cast<std::uint64_t>(fault.code));
    out.text(fault.cause);
  }
  out.number(index.notes.size());
  for (const std::string& note : index.notes) out.text(note);
  if (is_remote(path)) {
    const auto object = default_file_system()->create(path);
    object->append(out.finish());
    object->commit();
    return true;
  }
  DurableFile file(path);
  file.append(out.finish());
  file.commit();
  return true;
} catch (const std::exception&) {
  return false;
}

}  // namespace penstock
