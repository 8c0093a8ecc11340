#include "pipeline/sources/index_file.h"

#include <bit>
#include <cstring>

#include "pipeline/io/crc32c.h"
#include "pipeline/io/durable.h"

namespace penstock {
namespace {

// Layout, little-endian: magic, size u64, time i64, kind, entries, faults, notes, crc32c u32 of all
// before. A list is its count u64 and its items; a text its length u64 and its bytes; an entry two
// u64; a fault record u64, code u64, cause.
static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'P', 'N', 'S', 'T', 'I', 'D', 'X', '1'};
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

/// Throws Error{data_loss} for what does not fit in the bytes that remain.
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

std::optional<ShardIndex> parse(std::span<const std::byte> bytes, const FileInfo& shard,
                                const std::string& kind) {
  Reader in(bytes);
  if (std::memcmp(in.bytes(sizeof(kMagic)).data(), kMagic, sizeof(kMagic)) != 0) return {};
  if (in.number() != shard.size) return {};
  if (in.number() != static_cast<std::uint64_t>(shard.mtime_ns) || in.text() != kind) return {};
  ShardIndex index;
  index.entries.resize(in.count(sizeof(IndexEntry)));
  const std::size_t entry_bytes = index.entries.size() * sizeof(IndexEntry);
  if (entry_bytes > 0) std::memcpy(index.entries.data(), in.bytes(entry_bytes).data(), entry_bytes);
  for (const IndexEntry& entry : index.entries) {
    if (entry.offset > shard.size || entry.size > shard.size - entry.offset) return {};
  }
  index.faults.resize(in.count(3 * sizeof(std::uint64_t)));
  for (IndexFault& fault : index.faults) {
    fault.record = in.number();
    fault.code = static_cast<ErrorCode>(in.number());
    fault.cause = in.text();
    const bool ascends = &fault == index.faults.data() || (&fault)[-1].record < fault.record;
    if (!ascends || fault.record >= index.entries.size() || fault.code > ErrorCode::internal)
      return {};
  }
  index.notes.resize(in.count(sizeof(std::uint64_t)));
  for (std::string& note : index.notes) note = in.text();
  if (!in.done()) return {};
  return index;
}

}  // namespace

std::string index_path(const std::string& shard, const FileInfo& info,
                       const IndexOptions& options) {
  if (options.folder == "-" || info.size < options.least_cached_bytes) return {};
  const std::string name = base_name(shard);
  if (!options.folder.empty()) {
    const std::uint32_t hash = crc32c(std::as_bytes(std::span(shard)));
    return options.folder + '/' + name + '.' + std::to_string(hash) + ".penstock-index";
  }
  try {
    if (default_file_system()->info(shard) != info) return {};
  } catch (const Error&) {
    return {};
  }
  return shard.substr(0, shard.size() - name.size()) + '.' + name + ".penstock-index";
}

std::optional<ShardIndex> load_index(const std::string& path, const FileInfo& shard,
                                     const std::string& kind) noexcept try {
  const std::vector<std::byte> file = default_file_system()->open(path)->read_all(kMostBytes);
  std::uint32_t crc;
  if (file.size() < sizeof(kMagic) + sizeof(crc)) return {};
  const std::span<const std::byte> body = std::span(file).first(file.size() - sizeof(crc));
  std::memcpy(&crc, body.data() + body.size(), sizeof(crc));
  if (crc != crc32c(body)) return {};
  return parse(body, shard, kind);
} catch (const std::exception&) {
  return {};
}

bool save_index(const std::string& path, const FileInfo& shard, const std::string& kind,
                const ShardIndex& index) noexcept try {
  Writer out;
  out.reserve(index.entries.size() * sizeof(IndexEntry) + 1024);
  out.bytes(kMagic, sizeof(kMagic));
  out.number(shard.size);
  out.number(static_cast<std::uint64_t>(shard.mtime_ns));
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
  DurableFile file(path);
  file.append(out.finish());
  file.commit();
  return true;
} catch (const std::exception&) {
  return false;
}

}  // namespace penstock
