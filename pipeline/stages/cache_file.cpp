#include "pipeline/stages/cache_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <penstock/file_system.h>
#include <penstock/internal/crc32c.h>

#include "pipeline/io/element_codec.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kFormat = "penstock cache ";
constexpr std::string_view kMagic = "penstock cache 2\n";
constexpr std::size_t kHeader = 128;
constexpr std::size_t kKeyAt = 64;
constexpr std::uint64_t kMostMarks = 1 << 20;
constexpr std::size_t kFooter = 32;
constexpr std::size_t kEntry = 24;

std::span<const std::byte> bytes_of(const std::vector<std::uint64_t>& numbers) {
  return std::as_bytes(std::span<const std::uint64_t>(numbers));
}

struct Footer {
  std::uint64_t index_offset = 0;
  std::uint64_t count = 0;
  std::uint64_t key = 0;
  std::uint32_t index_sum = 0;
  std::uint32_t sum = 0;

  std::uint32_t expected_sum() const {
    return crc32c({reinterpret_cast<const std::byte*>(this), kFooter - 4});
  }
};
static_assert(sizeof(Footer) == kFooter);

/// A part of another buffer.
class Part final : public Buffer {
 public:
  Part(BufferPtr whole, std::uint64_t offset, std::uint64_t size) : whole_(std::move(whole)) {
    data_ = whole_->data() + offset;
    size_ = size;
  }
  void for_each_part(const std::function<void(Buffer& part)>& use) noexcept override {
    use(*whole_);
  }

 private:
  void dispose() noexcept override { delete this; }
  BufferPtr whole_;
};

/// True if tensors hold all values inline.
bool is_small(const Spec& spec) {
  constexpr std::int64_t kInTensor = 48;
  return spec.is_fixed_size() && std::ranges::all_of(spec, [](const ComponentSpec& component) {
           return component.shape.volume() <=
                  kInTensor / static_cast<std::int64_t>(size_of(component.dtype));
         });
}

/// The numbers of the header.
struct Head {
  std::uint64_t graph = 0;
  std::uint64_t contents = 0;
  std::uint64_t marks = 0;  // bytes
};

/// Returns the index of a file with the expected key, of which the records begin at `begin`. Throws
/// if the index is damaged.
std::vector<std::uint64_t> read_index(File& file, const Footer& footer, std::uint64_t begin) {
  const std::uint64_t size = file.info().size;
  if (footer.sum != footer.expected_sum() || footer.index_offset < begin ||
      footer.index_offset > size - kFooter ||
      footer.count != (size - kFooter - footer.index_offset) / kEntry ||
      (size - kFooter - footer.index_offset) % kEntry != 0) {
    throw Error(ErrorCode::data_loss, "the cache file's end is damaged",
                Provenance{file.path(), static_cast<std::int64_t>(size - kFooter), -1, {}});
  }
  std::vector<std::uint64_t> index(3 * footer.count);
  file.read_exactly(footer.index_offset, std::as_writable_bytes(std::span<std::uint64_t>(index)));
  bool good = crc32c(bytes_of(index)) == footer.index_sum;
  std::uint64_t end = begin;
  for (std::size_t i = 0; good && i < index.size(); i += 3) {
    good = index[i] == end && index[i + 1] <= footer.index_offset - end;
    end += index[i + 1];
  }
  if (!good || end != footer.index_offset) {
    throw Error(ErrorCode::data_loss, "the cache file's index is damaged",
                Provenance{file.path(), static_cast<std::int64_t>(footer.index_offset), -1, {}});
  }
  return index;
}

}  // namespace

CacheFileWriter::CacheFileWriter(const std::string& path, const CacheKey& key)
    : file_(path), key_(key.graph) {
  const Head head{key.graph, key.contents, key.marks.size()};
  std::array<std::byte, kHeader> header{};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::memcpy(header.data() + kKeyAt, &head, sizeof(head));
  file_.append(header);
  file_.append(std::as_bytes(std::span(key.marks)));
}

void CacheFileWriter::add(const Element& element, std::uint64_t ordinal, const Provenance& where) {
  record_.clear();
  encode_element(element, where, record_);
  index_.insert(index_.end(), {file_.size(), record_.size(), ordinal});
  file_.append(record_);
}

void CacheFileWriter::commit() {
  Footer footer{file_.size(), count(), key_, crc32c(bytes_of(index_)), 0};
  footer.sum = footer.expected_sum();
  file_.append(bytes_of(index_));
  file_.append(std::as_bytes(std::span<const Footer>(&footer, 1)));
  file_.commit();
}

std::shared_ptr<const CacheFileSource> CacheFileSource::open(
    const std::string& path, const CacheKey& key, const Spec& spec,
    const std::function<void(const std::string& marks)>& other) {
  const Error occupied(ErrorCode::invalid_argument,
                       "the file exists and is not a cache; remove it or give another name",
                       Provenance{path, -1, -1, {}});
  if (default_file_system()->is_directory(path)) throw occupied;
  std::shared_ptr<File> file;
  try {
    file = default_file_system()->open(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return nullptr;
    throw;
  }
  const std::uint64_t size = file->info().size;
  std::array<std::byte, kHeader> header{};
  if (size >= kHeader + kFooter) file->read_exactly(0, header);
  if (std::memcmp(header.data(), kFormat.data(), kFormat.size()) != 0) {
    throw occupied;
  }
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return nullptr;
  Head head;
  std::memcpy(&head, header.data() + kKeyAt, sizeof(head));
  if (head.graph != key.graph) return nullptr;
  if (head.marks > std::min(kMostMarks, size - kHeader - kFooter)) {
    throw Error(ErrorCode::data_loss, "the cache file's beginning is damaged",
                Provenance{path, 0, -1, {}});
  }
  if (key.contents != 0 && head.contents != key.contents) {
    std::string marks(head.marks, '\0');
    file->read_exactly(kHeader, std::as_writable_bytes(std::span(marks)));
    other(marks);
    return nullptr;
  }
  Footer footer;
  file->read_exactly(size - kFooter, std::as_writable_bytes(std::span<Footer>(&footer, 1)));
  std::vector<std::uint64_t> index = read_index(*file, footer, kHeader + head.marks);
  return std::shared_ptr<const CacheFileSource>(
      new CacheFileSource(std::move(file), std::move(index), spec));
}

CacheFileSource::CacheFileSource(std::shared_ptr<File> file, std::vector<std::uint64_t> index,
                                 Spec spec)
    : file_(std::move(file)),
      index_(std::move(index)),
      spec_(std::move(spec)),
      names_(spec_.names()),
      small_(is_small(spec_)) {}

void CacheFileSource::describe(Description& description) const {
  description.add("file", file_->path());
}

void CacheFileSource::read(std::span<WorkItem> items, ReadContext& context) const {
  if (small_) return read_small(items);
  std::vector<ReadRequest> requests;
  std::vector<BufferPtr> buffers;
  for (const WorkItem& item : items) {
    const std::uint64_t size = index_[3 * item.index + 1];
    buffers.push_back(context.allocate(size));
    requests.push_back({index_[3 * item.index], size, buffers.back()->data(), {}});
  }
  file_->read(requests);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].status = requests[i].status;
    decode(items[i], buffers[i], requests[i].size);
  }
}

// Reads neighbours together and copies their values, so that no tensor needs memory of its own.
void CacheFileSource::read_small(std::span<WorkItem> items) const {
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin + 1;
    while (end < items.size() && items[end].index == items[end - 1].index + 1) ++end;
    const std::uint64_t offset = index_[3 * items[begin].index];
    const std::uint64_t last = items[end - 1].index;
    const std::uint64_t bytes = index_[3 * last] + index_[3 * last + 1] - offset;
    const BufferPtr buffer = allocate_buffer(bytes);
    std::array<ReadRequest, 1> request{{{offset, bytes, buffer->data(), {}}}};
    file_->read(request);
    for (; begin < end; ++begin) {
      WorkItem& item = items[begin];
      item.status = request[0].status;
      const std::uint64_t size = index_[3 * item.index + 1];
      const BufferPtr record(new Part(buffer, index_[3 * item.index] - offset, size));
      decode(item, record, size);
      for (std::size_t c = 0; c < item.element.size(); ++c) {
        item.element[c] = item.element[c].clone();
      }
    }
  }
}

void CacheFileSource::decode(WorkItem& item, const BufferPtr& record, std::size_t size) const {
  if (!item.status.ok()) return;
  try {
    item.element = decode_element(record, size, spec_, names_);
  } catch (const Error& error) {
    item.status = damaged(item.index, error);
  }
}

Error CacheFileSource::damaged(std::uint64_t index, const Error& error) const {
  return Error(error.code(), error.cause(),
               Provenance{file_->path(),
                          static_cast<std::int64_t>(index_[3 * index]),
                          static_cast<std::int64_t>(index),
                          {}});
}

Provenance CacheFileSource::locate(std::uint64_t index) const {
  const auto offset = static_cast<std::int64_t>(index_[3 * index]);
  try {
    std::vector<std::byte> record(index_[3 * index + 1]);
    file_->read_exactly(index_[3 * index], record);
    return decode_origin(record);
  } catch (const Error&) {
    return {file_->path(), offset, static_cast<std::int64_t>(index), {}};
  }
}

}  // namespace penstock
