#include "cluster/net/sums.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "towers/tree_sum.h"

namespace penstock::cluster {
namespace {

using Buffer = std::unique_ptr<LinkBuffer>;

/// Large, because each message wakes a thread on either side. Small enough that one block is added
/// up while the next is in transit.
constexpr std::size_t kBlock = std::size_t{2} << 20;

/// With more ranks than this, few bytes are passed in rounds instead of from each rank to all.
constexpr int kAllAtOnce = 4;
constexpr std::size_t kFew = std::size_t{512} << 10;

template <typename Act>
void for_blocks(std::size_t bytes, const Act& act) {
  std::uint64_t block = 0;
  for (std::size_t at = 0; at < bytes; at += kBlock) act(block++, at, std::min(at + kBlock, bytes));
}

constexpr std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

/// Rounds to nearest, ties to even, in loops that compilers vectorise.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const bool is_nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
  return static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded);
}

float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace

Sums::Pieces Sums::pieces_of(std::size_t values, std::size_t bytes_each) const {
  Pieces pieces;
  for (int r = 0; r <= links_.size(); ++r)
    pieces.push_back(values * index(r) / index(links_.size()) * bytes_each);
  return pieces;
}

std::uint64_t Sums::blocks_in(const Pieces& pieces) const noexcept {
  std::size_t most = 1;
  for (std::size_t r = 0; r + 1 < pieces.size(); ++r)
    most = std::max(most, (pieces[r + 1] - pieces[r] + kBlock - 1) / kBlock);
  return most;
}

void Sums::add_up(std::size_t count, std::size_t begin, std::size_t end) {
  parts_.clear();
  for (int r = 0; r < links_.size(); ++r) parts_.push_back(scratch_.data() + index(r) * count);
  towers::sum_by_tree<float>(parts_, begin, end);
}

void Sums::at_once(std::span<float> values) {
  const std::size_t count = values.size(), bytes = values.size_bytes();
  scratch_.resize(count * index(links_.size()));
  if (links_.size() > kAllAtOnce) {
    std::copy_n(values.data(), count, scratch_.data() + index(links_.rank()) * count);
    spread(std::as_writable_bytes(std::span(scratch_)), bytes);
    add_up(count, 0, count);
    std::copy_n(scratch_.data(), count, values.data());
    return;
  }
  const Buffer given = links_.buffer(values.data(), bytes);
  const Buffer parts = links_.buffer(scratch_.data(), bytes * index(links_.size()));
  const std::uint64_t slot = links_.take_slots(1);
  for (int step = 1; step < links_.size(); ++step) {
    const int from = links_.neighbour(-step);
    parts->receive(from, slot, bytes * index(from), bytes * index(from + 1));
  }
  for (int step = 1; step < links_.size(); ++step)
    given->send(links_.neighbour(step), slot, 0, bytes);
  std::copy_n(values.data(), count, scratch_.data() + index(links_.rank()) * count);
  parts->received();
  given->sent();
  add_up(count, 0, count);
  std::copy_n(scratch_.data(), count, values.data());
}

void Sums::in_order(std::span<float> values) {
  const Pieces pieces = pieces_of(values.size(), sizeof(float));
  const std::uint64_t blocks = blocks_in(pieces);
  const std::size_t at = pieces[index(links_.rank())];
  const std::size_t bytes = pieces[index(links_.rank() + 1)] - at;
  const std::size_t mine = bytes / sizeof(float);
  float* const sums = values.data() + at / sizeof(float);
  const std::uint64_t slot = links_.take_slots(2 * blocks), back = slot + blocks;
  scratch_.resize(mine * index(links_.size()));
  const Buffer buffer = links_.buffer(values.data(), values.size_bytes());
  std::vector<Buffer> parts;  // one from each other rank
  // Request all messages first, so that none has to wait for its request.
  for (int step = 1; step < links_.size(); ++step) {
    const int from = links_.neighbour(-step);
    const Buffer& part =
        parts.emplace_back(links_.buffer(scratch_.data() + index(from) * mine, bytes));
    for_blocks(bytes, [&](std::uint64_t block, std::size_t begin, std::size_t end) {
      part->receive(from, slot + block, begin, end);
    });
    const std::size_t theirs = pieces[index(from)];
    for_blocks(pieces[index(from + 1)] - theirs,
               [&](std::uint64_t block, std::size_t begin, std::size_t end) {
                 buffer->receive(from, back + block, theirs + begin, theirs + end);
               });
  }
  for (std::uint64_t block = 0; block < blocks; ++block)
    for (int step = 1; step < links_.size(); ++step) {
      const int to = links_.neighbour(step);
      const std::size_t begin = pieces[index(to)] + block * kBlock, end = pieces[index(to + 1)];
      if (begin < end) buffer->send(to, slot + block, begin, std::min(begin + kBlock, end));
    }
  std::copy_n(sums, mine, scratch_.data() + index(links_.rank()) * mine);
  // Adds up and returns one block while the next is in transit.
  for_blocks(bytes, [&](std::uint64_t block, std::size_t begin, std::size_t end) {
    for (const Buffer& part : parts) part->received_one();
    const std::size_t first = begin / sizeof(float), last = end / sizeof(float);
    add_up(mine, first, last);
    std::copy(scratch_.data() + first, scratch_.data() + last, sums + first);
    for (int step = 1; step < links_.size(); ++step)
      buffer->send(links_.neighbour(step), back + block, at + begin, at + end);
  });
  buffer->received();
  buffer->sent();
}

void Sums::in_a_ring(std::span<float> values) {
  const Pieces pieces = pieces_of(values.size(), sizeof(float));
  const std::uint64_t blocks = blocks_in(pieces);
  const int steps = links_.size() - 1;  // steps that add up, and as many that pass sums on
  const std::uint64_t slot = links_.take_slots(2 * blocks * index(steps));
  const int next = links_.neighbour(1), previous = links_.neighbour(-1);
  // In each step a piece goes to the next rank. The piece that arrives goes out in the next step.
  const auto for_piece_of = [&](int step, const auto& act) {
    const std::size_t piece = index(links_.neighbour(-step));
    for_blocks(pieces[piece + 1] - pieces[piece],
               [&](std::uint64_t block, std::size_t begin, std::size_t end) {
                 act(block, pieces[piece] + begin, pieces[piece] + end);
               });
  };
  const auto slot_of = [&](int step, std::uint64_t block) {
    return slot + index(step) * blocks + block;
  };
  scratch_.resize(values.size());
  const Buffer buffer = links_.buffer(values.data(), values.size_bytes());
  const Buffer arriving = links_.buffer(scratch_.data(), values.size_bytes());
  // Request all messages first. A sum arrives only after the values in its place were sent.
  for (int step = 0; step < 2 * steps; ++step)
    for_piece_of(step + 1, [&](std::uint64_t block, std::size_t begin, std::size_t end) {
      (step < steps ? arriving : buffer)->receive(previous, slot_of(step, block), begin, end);
    });
  for_piece_of(0, [&](std::uint64_t block, std::size_t begin, std::size_t end) {
    buffer->send(next, slot_of(0, block), begin, end);
  });
  for (int step = 0; step + 1 < 2 * steps; ++step)
    for_piece_of(step + 1, [&](std::uint64_t block, std::size_t begin, std::size_t end) {
      (step < steps ? arriving : buffer)->received_one();
      if (step < steps) {
        float* const to = values.data();
        const float* const from = scratch_.data();
        for (std::size_t i = begin / sizeof(float); i < end / sizeof(float); ++i) to[i] += from[i];
      }
      buffer->send(next, slot_of(step + 1, block), begin, end);
    });
  buffer->received();
  buffer->sent();
}

void Sums::in_bf16(std::span<float> values) {
  const Pieces pieces = pieces_of(values.size(), sizeof(std::uint16_t));
  const std::size_t begin = pieces[index(links_.rank())] / sizeof(std::uint16_t);
  const std::size_t mine = pieces[index(links_.rank() + 1)] / sizeof(std::uint16_t) - begin;
  const std::size_t all = mine * index(links_.size());
  rounded_.resize(values.size());
  arrived_.resize(all);
  scratch_.resize(all);
  std::ranges::transform(values, rounded_.begin(), to_bf16);
  deal(rounded_.data(), pieces, arrived_.data());
  std::transform(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(all),
                 scratch_.begin(), from_bf16);
  add_up(mine, 0, mine);
  std::transform(scratch_.data(), scratch_.data() + mine, rounded_.data() + begin, to_bf16);
  spread_pieces(rounded_.data(), pieces);
  std::ranges::transform(rounded_, values.begin(), from_bf16);
}

void Sums::deal(void* values, const Pieces& pieces, void* parts) {
  const std::size_t at = pieces[index(links_.rank())];
  const std::size_t bytes = pieces[index(links_.rank() + 1)] - at;
  const Buffer given = links_.buffer(values, pieces.back());
  const Buffer got = links_.buffer(parts, bytes * index(links_.size()));
  const std::uint64_t slot = links_.take_slots(1);
  for (int step = 1; step < links_.size(); ++step) {
    const int to = links_.neighbour(step), from = links_.neighbour(-step);
    got->receive(from, slot, bytes * index(from), bytes * index(from + 1));
    given->send(to, slot, pieces[index(to)], pieces[index(to + 1)]);
  }
  std::copy_n(static_cast<std::byte*>(values) + at, bytes,
              static_cast<std::byte*>(parts) + bytes * index(links_.rank()));
  got->received();
  given->sent();
}

void Sums::spread_pieces(void* all, const Pieces& pieces) {
  const Buffer buffer = links_.buffer(all, pieces.back());
  const std::uint64_t slot = links_.take_slots(1);
  for (int step = 1; step < links_.size(); ++step) {
    const int from = links_.neighbour(-step);
    buffer->receive(from, slot, pieces[index(from)], pieces[index(from + 1)]);
    buffer->send(links_.neighbour(step), slot, pieces[index(links_.rank())],
                 pieces[index(links_.rank() + 1)]);
  }
  buffer->received();
  buffer->sent();
}

/// In each round a rank passes on everything that it has. So a few messages replace a round trip
/// over many ranks. Source: Bruck et al., "Efficient algorithms for all-to-all communications in
/// multiport message-passing systems", 1997.
void Sums::spread_few(std::span<std::byte> all, std::size_t bytes) {
  const auto ranks = index(links_.size());
  turned_.resize(all.size());  // this rank's piece first, then those of the following ranks
  const auto place = [&](std::size_t i) {
    return all.data() + bytes * ((index(links_.rank()) + i) % ranks);
  };
  std::copy_n(place(0), bytes, turned_.data());
  for (std::size_t have = 1; have < ranks; have *= 2) {
    const std::size_t more = std::min(have, ranks - have);
    const Buffer buffer = links_.buffer(turned_.data(), turned_.size());
    const std::uint64_t slot = links_.take_slots(1);
    buffer->receive(links_.neighbour(static_cast<int>(have)), slot, have * bytes,
                    (have + more) * bytes);
    buffer->send(links_.neighbour(-static_cast<int>(have)), slot, 0, more * bytes);
    buffer->received();
    buffer->sent();
  }
  for (std::size_t i = 1; i < ranks; ++i) std::copy_n(turned_.data() + i * bytes, bytes, place(i));
}

void Sums::spread(std::span<std::byte> all, std::size_t bytes) {
  if (links_.size() > kAllAtOnce && all.size() <= kFew) return spread_few(all, bytes);
  Pieces pieces;
  for (int r = 0; r <= links_.size(); ++r) pieces.push_back(bytes * index(r));
  spread_pieces(all.data(), pieces);
}

}  // namespace penstock::cluster
