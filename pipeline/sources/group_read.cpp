#include "pipeline/sources/group_read.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <vector>

#include "pipeline/core/shard_times.h"
#include "pipeline/io/read_count.h"
#include "pipeline/io/together.h"

namespace penstock {
namespace {

constexpr std::size_t kSharedBlock = 256 << 10;

using Arrived = std::function<void(ReadPiece&)>;

/// Returns how many pieces share a buffer.
std::size_t block_of(std::span<const ReadPiece> pieces) {
  std::uint64_t bytes = pieces.front().size;
  std::size_t n = 1;
  while (n < pieces.size() && bytes + pieces[n].size <= kSharedBlock) bytes += pieces[n++].size;
  return n;
}

/// Gives the pieces consecutive memory, and adds a request for each run of neighbours.
void place_block(std::span<ReadPiece> pieces, ReadContext& context,
                 std::vector<ReadRequest>& requests) {
  std::uint64_t bytes = 0;
  bool any = false;
  for (const ReadPiece& piece : pieces) {
    if (piece.out != nullptr) continue;
    bytes += piece.size;
    any = true;
  }
  const BufferPtr buffer = any ? context.allocate(bytes) : BufferPtr();
  std::byte* out = any ? buffer->data() : nullptr;
  bool first = true;  // of those in the buffer
  for (ReadPiece& piece : pieces) {
    if (piece.out != nullptr) {
      requests.push_back({piece.offset, piece.size, piece.out, {}});
      piece.request = requests.size() - 1;
      piece.bytes = {piece.out, piece.size};
      first = true;
      continue;
    }
    const bool joins = !first && requests.back().offset + requests.back().size == piece.offset;
    if (joins) {
      requests.back().size += piece.size;
    } else {
      requests.push_back({piece.offset, piece.size, out, {}});
    }
    first = false;
    piece.request = requests.size() - 1;
    piece.bytes = {out, piece.size};
    piece.owner = buffer;
    out += piece.size;
  }
}

void place(std::span<ReadPiece> pieces, ReadContext& context, std::vector<ReadRequest>& requests) {
  requests.clear();
  while (!pieces.empty()) {
    const std::size_t n = block_of(pieces);
    place_block(pieces.first(n), context, requests);
    pieces = pieces.subspan(n);
  }
}

/// Sets the status of the pieces. A failed request may have held several pieces, of which only one
/// is unreadable.
void take(File& file, std::span<ReadPiece> pieces, std::span<const ReadRequest> requests) {
  const bool good = std::all_of(requests.begin(), requests.end(),
                                [](const ReadRequest& request) { return request.status.ok(); });
  if (good) return;
  for (ReadPiece& piece : pieces) piece.status = requests[piece.request].status;
  if (pieces.size() == 1) return;
  for (ReadPiece& piece : pieces) {
    if (piece.status.ok()) continue;
    ReadRequest request{piece.offset, piece.size, const_cast<std::byte*>(piece.bytes.data()), {}};
    file.read({&request, 1});
    piece.status = request.status;
  }
}

/// The pieces of one shard.
class ShardRead {
 public:
  /// Opens the shard. If that fails, reading it fails.
  ShardRead(const Shards& shards, std::span<ReadPiece> pieces) : shards_(shards), pieces_(pieces) {
    try {
      open_ = shards.open(shard());
      if (!open_.mapping) together_ = dynamic_cast<TogetherFile*>(open_.file.get());
    } catch (const Error& error) {
      failed_ = error;
    }
  }

  /// Returns null if the file must be read by itself.
  TogetherFile* together() const noexcept { return together_; }
  bool failed() const noexcept { return !failed_.ok(); }

  void read(ReadContext& context, std::vector<ReadRequest>& requests, const Arrived& arrived) {
    try {
      if (failed()) throw failed_.error();
      const bool at_once = open_.file->depth() > 1 || open_.mapping;
      while (!pieces_.empty()) {
        const std::span<ReadPiece> wave =
            pieces_.first(at_once ? pieces_.size() : block_of(pieces_));
        open_.mapping ? view(wave) : fetch(wave, context, requests);
        deliver(wave, context, arrived);
      }
    } catch (const Error& error) {
      fail(error, arrived);
    }
  }

  /// Two steps that replace `read`: the requests to make, and the work after their answers.
  std::span<ReadRequest> ask(ReadContext& context) {
    try {
      place(pieces_, context, requests_);
    } catch (const Error& error) {
      failed_ = error;
      requests_.clear();
    }
    return requests_;
  }
  void came(ReadContext& context, const Arrived& arrived) {
    try {
      if (failed()) throw failed_.error();
      take(*open_.file, pieces_, requests_);
      deliver(pieces_, context, arrived);
    } catch (const Error& error) {
      fail(error, arrived);
    }
  }

 private:
  std::size_t shard() const noexcept { return pieces_.front().shard; }

  void view(std::span<ReadPiece> pieces) const {
    const std::span<const std::byte> file = open_.file->mapped();
    for (ReadPiece& piece : pieces) {
      piece.bytes = file.subspan(piece.offset, piece.size);
      piece.owner = open_.mapping;
    }
  }

  void fetch(std::span<ReadPiece> pieces, ReadContext& context,
             std::vector<ReadRequest>& requests) const {
    place(pieces, context, requests);
    reads_asked().add(requests.size(), open_.file->depth());
    const auto start = std::chrono::steady_clock::now();
    open_.file->read(requests);
    note_time(requests.size(), std::chrono::steady_clock::now() - start);
    take(*open_.file, pieces, requests);
  }

  void note_time(std::size_t reads, ShardTimes::Duration took) const noexcept {
    ShardTimes& times = ShardTimes::of_process();
    if (took < ShardTimes::kSlow) return times.add_fast(reads, took);
    try {
      times.add_slow(shards_.path(shard()), reads, took);
    } catch (const std::bad_alloc&) {
      return;  // reads that are not counted
    }
  }

  /// REQUIRES: `pieces` are the first of `pieces_`, which then begin behind them.
  void deliver(std::span<ReadPiece> pieces, const ReadContext& context, const Arrived& arrived) {
    shards_.check(shard(), *open_.file, context.trust_data());
    const std::span<ReadPiece> all = pieces_;
    for (ReadPiece& piece : pieces) {
      pieces_ = pieces_.subspan(1);
      arrived(piece);
      piece.owner = {};
    }
    if (!open_.mapping || open_.mapping->mapping() == nullptr) return;
    // A view may have been parsed while the file was written. If so, its pieces arrive once more.
    pieces_ = all;
    shards_.check(shard(), *open_.file, context.trust_data());
    pieces_ = all.subspan(pieces.size());
  }

  /// Fails all pieces: the shard can't be opened, has changed, or there is no memory.
  void fail(const Error& error, const Arrived& arrived) {
    for (ReadPiece& piece : pieces_) {
      piece.status = error;
      arrived(piece);
    }
  }

  const Shards& shards_;
  std::span<ReadPiece> pieces_;  // pieces that were not delivered yet
  OpenShard open_;
  TogetherFile* together_ = nullptr;
  Status failed_;
  std::vector<ReadRequest> requests_;  // of `ask`
};

/// Reads shards whose files have the same reader, all at once.
void read_together(std::span<ShardRead*> reads, ReadContext& context, const Arrived& arrived) {
  std::vector<TogetherFile::Reads> asked;
  std::size_t requests = 0;
  for (ShardRead* const read : reads) {
    const std::span<ReadRequest> own = read->ask(context);
    requests += own.size();
    if (!own.empty()) asked.push_back({read->together(), own});
  }
  if (!asked.empty()) {
    TogetherFile& first = *asked.front().file;
    reads_asked().add(requests, first.depth());
    first.read_together(asked);
  }
  for (ShardRead* const read : reads) read->came(context, arrived);
}

}  // namespace

void read_pieces(const Shards& shards, std::span<ReadPiece> pieces, ReadContext& context,
                 const std::function<void(ReadPiece&)>& arrived) {
  thread_local std::vector<ReadRequest> requests;
  const auto lies_before = [](const ReadPiece& a, const ReadPiece& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.offset < b.offset;
  };
  // Pieces that are read in order are already sorted. Sorting costs much compared with a small
  // record.
  if (!std::is_sorted(pieces.begin(), pieces.end(), lies_before)) {
    std::sort(pieces.begin(), pieces.end(), lies_before);
  }
  std::vector<ShardRead> later;  // to be read together
  while (!pieces.empty()) {
    std::size_t n = 1;
    while (n < pieces.size() && pieces[n].shard == pieces[0].shard) ++n;
    ShardRead read(shards, pieces.first(n));
    pieces = pieces.subspan(n);
    // A single shard can't be combined with another.
    if (read.together() != nullptr && (!pieces.empty() || !later.empty())) {
      later.push_back(std::move(read));
    } else {
      read.read(context, requests, arrived);
    }
  }
  requests.clear();
  std::vector<ShardRead*> same;
  for (std::size_t begin = 0; begin < later.size(); begin += same.size()) {
    same.clear();
    const void* const reader = later[begin].together()->reader();
    for (std::size_t i = begin; i < later.size() && later[i].together()->reader() == reader; ++i)
      same.push_back(&later[i]);
    read_together(same, context, arrived);
  }
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
