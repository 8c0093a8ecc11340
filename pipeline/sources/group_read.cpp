#include "pipeline/sources/group_read.h"

#include <algorithm>
#include <vector>

#include "pipeline/io/read_count.h"

namespace penstock {
namespace {

constexpr std::size_t kSharedBlock = 256 << 10;

/// The pieces of one shard.
class ShardRead {
 public:
  ShardRead(const Shards& shards, ReadContext& context, std::vector<ReadRequest>& requests)
      : shards_(shards), context_(context), requests_(requests) {}

  void read(std::span<ReadPiece> pieces, const std::function<void(ReadPiece&)>& arrived) {
    delivered_ = 0;
    const std::size_t shard = pieces.front().shard;
    const OpenShard open = shards_.open(shard);
    const bool at_once = open.file->depth() > 1 || open.mapping;
    while (!pieces.empty()) {
      const std::size_t n = at_once ? pieces.size() : block_of(pieces);
      const std::span<ReadPiece> wave = pieces.first(n);
      pieces = pieces.subspan(n);
      open.mapping ? view(open, wave) : fetch(*open.file, wave);
      if (!open.file->unchanged()) throw changed_error(shards_.path(shard));
      for (ReadPiece& piece : wave) {
        ++delivered_;
        arrived(piece);
        piece.owner = {};
      }
    }
  }

  /// Pieces that were passed to `arrived` by the last `read`.
  std::size_t delivered() const noexcept { return delivered_; }

 private:
  /// How many pieces share a buffer.
  static std::size_t block_of(std::span<const ReadPiece> pieces) {
    std::uint64_t bytes = pieces.front().size;
    std::size_t n = 1;
    while (n < pieces.size() && bytes + pieces[n].size <= kSharedBlock) bytes += pieces[n++].size;
    return n;
  }

  static void view(const OpenShard& open, std::span<ReadPiece> pieces) {
    const std::span<const std::byte> file = open.file->mapped();
    for (ReadPiece& piece : pieces) {
      piece.bytes = file.subspan(piece.offset, piece.size);
      piece.owner = open.mapping;
    }
  }

  void fetch(File& file, std::span<ReadPiece> pieces) {
    requests_.clear();
    for (std::span<ReadPiece> rest = pieces; !rest.empty();) {
      const std::size_t n = block_of(rest);
      place(rest.first(n));
      rest = rest.subspan(n);
    }
    reads_asked() += (requests_.size() + file.depth() - 1) / file.depth();
    file.read(requests_);
    const bool good = std::all_of(requests_.begin(), requests_.end(),
                                  [](const ReadRequest& request) { return request.status.ok(); });
    if (good) return;
    for (ReadPiece& piece : pieces) piece.status = requests_[piece.request].status;
    retry_alone(file, pieces);
  }

  /// Gives the pieces memory side by side and adds a request for each run of neighbours.
  void place(std::span<ReadPiece> pieces) {
    std::uint64_t bytes = 0;
    for (const ReadPiece& piece : pieces) bytes += piece.size;
    const BufferPtr buffer = context_.allocate(bytes);
    std::byte* out = buffer->data();
    bool first = true;
    for (ReadPiece& piece : pieces) {
      const bool joins = !first && requests_.back().offset + requests_.back().size == piece.offset;
      if (joins) {
        requests_.back().size += piece.size;
      } else {
        requests_.push_back({piece.offset, piece.size, out, {}});
      }
      first = false;
      piece.request = requests_.size() - 1;
      piece.bytes = {out, piece.size};
      piece.owner = buffer;
      out += piece.size;
    }
  }

  /// A request that failed may have held several pieces, of which only one can't be read.
  void retry_alone(File& file, std::span<ReadPiece> pieces) {
    if (pieces.size() == 1) return;
    for (ReadPiece& piece : pieces) {
      if (piece.status.ok()) continue;
      ReadRequest request{piece.offset, piece.size, const_cast<std::byte*>(piece.bytes.data()), {}};
      file.read({&request, 1});
      piece.status = request.status;
    }
  }

  const Shards& shards_;
  ReadContext& context_;
  std::vector<ReadRequest>& requests_;
  std::size_t delivered_ = 0;
};

}  // namespace

void read_pieces(const Shards& shards, std::span<ReadPiece> pieces, ReadContext& context,
                 const std::function<void(ReadPiece&)>& arrived) {
  thread_local std::vector<ReadRequest> requests;
  const auto lies_before = [](const ReadPiece& a, const ReadPiece& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.offset < b.offset;
  };
  // Read in their order they are sorted already, and sorting is dear beside a small record.
  if (!std::is_sorted(pieces.begin(), pieces.end(), lies_before)) {
    std::sort(pieces.begin(), pieces.end(), lies_before);
  }
  ShardRead reader(shards, context, requests);
  while (!pieces.empty()) {
    std::size_t n = 1;
    while (n < pieces.size() && pieces[n].shard == pieces[0].shard) ++n;
    const std::span<ReadPiece> group = pieces.first(n);
    pieces = pieces.subspan(n);
    try {
      reader.read(group, arrived);
    } catch (const Error& error) {  // the shard can't be opened or has changed, or memory is out
      for (ReadPiece& piece : group.subspan(reader.delivered())) {
        piece.status = error;
        arrived(piece);
      }
    }
  }
  requests.clear();
}

void reread_piece(const Shards& shards, ReadPiece& piece, ReadContext& context) {
  const OpenShard open = shards.open(piece.shard);
  std::byte* out = const_cast<std::byte*>(piece.bytes.data());
  if (open.mapping) {
    piece.owner = context.allocate(piece.size);
    out = piece.owner->data();
    piece.bytes = {out, piece.size};
  }
  ReadRequest request{piece.offset, piece.size, out, {}};
  open.file->read_uncached({&request, 1});
  piece.status = request.status;
}

}  // namespace penstock
