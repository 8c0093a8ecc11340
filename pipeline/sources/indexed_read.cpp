#include "pipeline/sources/indexed_read.h"

#include <vector>

namespace penstock {
namespace {

constexpr std::uint64_t kMostRun = 256 << 10;  // bytes of records read as one piece

using Deliver = std::function<void(std::size_t, ReadPiece&)>;
using Fail = std::function<void(std::size_t, const Error&)>;

/// Adjacent records that are requested one after the other are read as one piece.
class RecordsRead {
 public:
  RecordsRead(const Shards& shards, const OffsetIndex& index,
              std::span<const std::uint64_t> indices, const Deliver& deliver, const Fail& fail)
      : shards_(shards), index_(index), indices_(indices), deliver_(deliver), fail_(fail) {}

  void read(ReadContext& context) {
    thread_local std::vector<ReadPiece> runs;
    find_runs(runs);
    const auto arrived = [&](ReadPiece& run) { this->arrived(run, context); };
    read_pieces(shards_, runs, context, arrived);
    if (!alone_.empty()) read_pieces(shards_, alone_, context, arrived);
    runs.clear();
  }

 private:
  void find_runs(std::vector<ReadPiece>& runs) {
    runs.clear();
    bool may_continue = false;  // the last run
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const OffsetIndex::Position at = index_.find(indices_[i]);
      if (const IndexFault* fault = index_.fault(at)) {
        fail_(i, Error(fault->code, fault->cause, locate_record(shards_, index_, indices_[i])));
        may_continue = false;
        continue;
      }
      const IndexEntry& entry = index_.entry(at);
      if (may_continue) {
        ReadPiece& run = runs.back();
        if (run.shard == at.shard && run.offset + run.size == entry.offset &&
            run.size + entry.size <= kMostRun) {
          run.size += entry.size;
          continue;
        }
      }
      runs.push_back({.item = i, .shard = at.shard, .offset = entry.offset, .size = entry.size});
      may_continue = true;
    }
  }

  void arrived(ReadPiece& run, ReadContext& context) {
    thread_local std::vector<std::size_t> ends;
    ends.clear();
    std::size_t i = run.item;
    std::uint64_t at = 0;
    do {
      const std::uint64_t size = index_.entry(index_.find(indices_[i])).size;
      ReadPiece one{.item = i, .shard = run.shard, .offset = run.offset + at, .size = size};
      if (run.status.ok()) {
        one.bytes = run.bytes.subspan(at, size);
        one.owner = run.owner;
        if (run.owner) ends.push_back(end_of(one.bytes, run.owner));
        deliver_(i, one);
      } else if (size == run.size) {
        const Error& error = run.status.error();
        fail_(i, Error(error.code(), error.cause(), locate_record(shards_, index_, indices_[i])));
      } else {  // perhaps only one of several can't be read
        alone_.push_back(std::move(one));
      }
      at += size;
      ++i;
    } while (at < run.size);
    if (!ends.empty()) context.note_records(run.owner, ends);
  }

  const Shards& shards_;
  const OffsetIndex& index_;
  const std::span<const std::uint64_t> indices_;
  const Deliver& deliver_;
  const Fail& fail_;
  std::vector<ReadPiece> alone_;
};

}  // namespace

void read_records(const Shards& shards, const OffsetIndex& index,
                  std::span<const std::uint64_t> indices, ReadContext& context,
                  const Deliver& deliver, const Fail& fail) {
  RecordsRead(shards, index, indices, deliver, fail).read(context);
}

void read_records(const Shards& shards, const OffsetIndex& index, std::span<ReadItem> items,
                  ReadContext& context, const std::function<void(ReadPiece&, ReadItem&)>& deliver) {
  thread_local std::vector<std::uint64_t> indices;
  thread_local std::vector<std::size_t> places;  // the items that they belong to
  indices.clear();
  places.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].status.ok()) continue;
    indices.push_back(items[i].index);
    places.push_back(i);
  }
  read_records(
      shards, index, indices, context,
      [&](std::size_t k, ReadPiece& piece) { deliver(piece, items[places[k]]); },
      [&](std::size_t k, const Error& error) { items[places[k]].status = error; });
}

Provenance locate_record(const Shards& shards, const OffsetIndex& index, std::uint64_t record) {
  const OffsetIndex::Position at = index.find(record);
  return {.shard = shards.path(at.shard),
          .offset = static_cast<std::int64_t>(index.entry(at).offset),
          .index = static_cast<std::int64_t>(record),
          .stage = {},
          .length = static_cast<std::int64_t>(index.entry(at).size)};
}

}  // namespace penstock
