#include "pipeline/sources/idx_format.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <penstock/internal/other_format.h>

#include "pipeline/sources/fixed_rows.h"
#include "pipeline/sources/inflate.h"

namespace penstock {
namespace {

constexpr std::size_t kMostAtOnce = 1 << 20;

Error damaged(const std::string& path, const std::string& what, std::uint64_t offset) {
  return Error(ErrorCode::data_loss, what,
               {.shard = path, .offset = static_cast<std::int64_t>(offset), .stage = {}});
}

std::optional<DType> dtype_of_code(unsigned code) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0b:
      return DType::i16;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    case 0x0e:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

class VectorBuffer final : public Buffer {
 public:
  explicit VectorBuffer(std::vector<std::byte> values) : values_(std::move(values)) {
    data_ = values_.data();
    size_ = values_.size();
  }

 private:
  void dispose() noexcept override { delete this; }

  std::vector<std::byte> values_;
};

}  // namespace

IdxHeader read_idx_header(const ReadFront& read, File& file) {
  const std::string& path = file.path();
  std::array<std::byte, 4> magic{};
  const std::size_t got = read(magic);
  if (got < magic.size()) throw damaged(path, "truncated at byte " + std::to_string(got), got);
  const auto dtype = dtype_of_code(std::to_integer<unsigned>(magic[2]));
  const int rank = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !dtype) {
    if (!is_compressed(file)) refuse_other_format(file);
    throw damaged(path, "not an IDX file", 0);
  }
  if (rank < 1 || rank > kMaxRank) {
    throw damaged(path, "an IDX file of " + std::to_string(rank) + " dimensions", 3);
  }
  std::array<std::byte, 4 * kMaxRank> sizes{};
  const auto size_bytes = static_cast<std::size_t>(4 * rank);
  const std::size_t got_sizes = read(std::span(sizes).first(size_bytes));
  if (got_sizes < size_bytes) {
    throw damaged(path, "truncated at byte " + std::to_string(4 + got_sizes), 4 + got_sizes);
  }
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < size_bytes; i += 4) {
    std::int64_t dim = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      dim = dim << 8 | std::to_integer<std::int64_t>(sizes[i + j]);
    }
    dims.push_back(dim);
  }
  return {*dtype, Shape(std::span<const std::int64_t>(dims)), 4 + size_bytes};
}

bool is_compressed(File& file) {
  std::array<std::byte, 3> head{};
  const std::size_t size = std::min<std::uint64_t>(head.size(), file.info().size);
  file.read_exactly(0, std::span(head).first(size));
  return compression_of(std::span(head).first(size)) != Compression::none;
}

IdxContents load_idx(const std::shared_ptr<File>& file, const Limits& limits) {
  std::array<std::byte, 3> head{};
  const std::uint64_t file_size = file->info().size;
  const std::size_t head_size = std::min<std::uint64_t>(head.size(), file_size);
  file->read_exactly(0, std::span(head).first(head_size));
  const Compression compression = compression_of(std::span(head).first(head_size));

  std::optional<InflateStream> inflated;
  if (compression != Compression::none) inflated.emplace(file, compression, limits);
  std::uint64_t offset = 0;
  const ReadFront read = [&](std::span<std::byte> out) -> std::size_t {
    if (inflated) return inflated->read(out);
    const std::size_t size = std::min<std::uint64_t>(out.size(), file_size - offset);
    file->read_exactly(offset, out.first(size));
    offset += size;
    return size;
  };

  IdxContents contents;
  contents.header = read_idx_header(read, *file);
  const std::uint64_t row_bytes =
      row_bytes_of(contents.header.dtype, contents.header.shape.drop_front());
  std::uint64_t promised = 0;
  if (__builtin_mul_overflow(contents.header.rows(), row_bytes, &promised)) {
    promised = UINT64_MAX;
  }
  std::vector<std::byte> data;
  while (data.size() < promised) {
    const std::size_t before = data.size();
    data.resize(before + std::min<std::uint64_t>(kMostAtOnce, promised - before));
    const std::size_t got = read(std::span(data).subspan(before));
    data.resize(before + got);
    if (got == 0) break;
  }
  // One byte more makes the decompressor verify its checksum.
  std::array<std::byte, 1> rest;
  read(rest);
  contents.bytes = data.size();
  contents.data = BufferPtr(new VectorBuffer(std::move(data)));
  return contents;
}

}  // namespace penstock
