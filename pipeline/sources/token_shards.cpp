// The source that reads windows of tokens.
#include <penstock/internal/other_format.h>
#include <penstock/sources.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "pipeline/sources/group_read.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/sources/shards.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

/// What a header of llm.c says of the tokens behind it. Source:
/// https://github.com/karpathy/llm.c/blob/master/dev/data/data_common.py
struct HeaderKind {
  std::uint32_t magic;
  std::uint32_t version;
  DType stored;
};
constexpr HeaderKind kHeaders[] = {{20240520, 1, DType::u16}, {20240801, 7, DType::u32}};
constexpr std::uint32_t kEvaluationMagic = 20240522;
constexpr std::uint64_t kHeaderBytes = 256 * sizeof(std::int32_t);

/// The tokens of one file.
struct TokenFile {
  std::uint64_t begin = 0;  ///< offset of the first token
  std::uint64_t count = 0;
  DType stored = DType::u16;
};

[[noreturn]] void refuse(const File& file, const std::string& cause) {
  throw Error(ErrorCode::data_loss, cause, {.shard = file.path(), .stage = {}});
}

TokenFile check_header(const File& file, const HeaderKind& kind, std::uint32_t version,
                       std::uint32_t count) {
  const std::uint64_t size = file.info().size;
  const std::string header = "the header " + std::to_string(kind.magic) + " of llm.c ";
  if (size < kHeaderBytes) {
    refuse(file, header + "takes " + std::to_string(kHeaderBytes) + " bytes; the file has " +
                     std::to_string(size));
  }
  if (version != kind.version) {
    refuse(file, header + "has version " + std::to_string(version) + "; version " +
                     std::to_string(kind.version) + " is read");
  }
  const std::uint64_t bytes = size - kHeaderBytes;
  const std::uint64_t width = size_of(kind.stored);
  if (count * width != bytes) {
    refuse(file, header + "promises " + std::to_string(static_cast<std::int32_t>(count)) +
                     " tokens of " + std::to_string(width) + " bytes, but " +
                     std::to_string(bytes) + " bytes follow it");
  }
  return {kHeaderBytes, count, kind.stored};
}

/// The first tokens of a file without a header are never taken for one: as u16 they would be ids
/// above 55,000, and as u32 above 20 million.
TokenFile read_token_header(File& file, DType stored) {
  const std::uint64_t size = file.info().size;
  std::array<std::uint32_t, 3> head{};
  file.read_exactly(
      0,
      std::as_writable_bytes(std::span(head)).first(std::min<std::uint64_t>(size, sizeof(head))));
  if (head[0] == kEvaluationMagic) {
    refuse(file, "a file of multiple-choice questions of llm.c, which is no shard of tokens");
  }
  for (const HeaderKind& kind : kHeaders) {
    if (head[0] == kind.magic) return check_header(file, kind, head[1], head[2]);
    // Two tokens of a file without a header may look like one of these numbers, but not four.
    if (head[0] == __builtin_bswap32(kind.magic) && head[1] == __builtin_bswap32(kind.version)) {
      refuse(file, "a header of llm.c in the byte order of another machine");
    }
  }
  if (size % size_of(stored) != 0) {
    refuse_other_format(file);
    refuse(file, "the file has " + std::to_string(size) + " bytes and no header, but tokens of " +
                     std::to_string(size_of(stored)) + " bytes");
  }
  return {0, size / size_of(stored), stored};
}

std::vector<TokenFile> read_headers(const Shards& shards, DType stored) {
  std::vector<TokenFile> files(shards.size());
  for_each_parallel(shards.size(), [&](std::size_t i) {
    files[i] = read_token_header(*shards.open(i).file, stored);
  });
  return files;
}

/// Converts `count` tokens one by one. Returns the bits that any of them has.
template <typename To, typename From>
From convert(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  From all = 0;
  for (; count > 0; --count, from += sizeof(From), to += sizeof(To)) {
    From token;
    std::memcpy(&token, from, sizeof(token));
    all = static_cast<From>(all | token);
    const To result = token;
    std::memcpy(to, &result, sizeof(result));
  }
  return all;
}

/// Converts `count` tokens, which need not be aligned, and returns false if one does not fit. They
/// may be the last bytes of the place where the results go: a result never reaches a token that is
/// still to be read.
using Convert = bool (*)(const std::byte* from, std::byte* to, std::size_t count) noexcept;

template <typename Token>
bool copy_tokens(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  if (from != to) std::memcpy(to, from, count * sizeof(Token));
  return true;
}

template <typename To, typename From>
bool widen_tokens(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  convert<To, From>(from, to, count);
  return true;
}

/// The usual conversion, by vectors: the compiler cannot know that results never reach tokens that
/// are still to be read.
bool widen_to_32(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  using Vector [[gnu::vector_size(16)]] = std::uint16_t;
  constexpr Vector kZeros{};
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(std::uint16_t);
  for (; count >= kLanes; count -= kLanes, from += sizeof(Vector), to += 2 * sizeof(Vector)) {
    Vector tokens;
    std::memcpy(&tokens, from, sizeof(tokens));
    const Vector low = __builtin_shufflevector(tokens, kZeros, 0, 8, 1, 9, 2, 10, 3, 11);
    const Vector high = __builtin_shufflevector(tokens, kZeros, 4, 12, 5, 13, 6, 14, 7, 15);
    std::memcpy(to, &low, sizeof(low));
    std::memcpy(to + sizeof(low), &high, sizeof(high));
  }
  return widen_tokens<std::uint32_t, std::uint16_t>(from, to, count);
}

/// Returns false if a token is no i32.
bool sign_tokens(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  return convert<std::uint32_t, std::uint32_t>(from, to, count) <= INT32_MAX;
}

/// Returns the function that converts tokens; null if they do not fit.
Convert conversion(DType from, DType to) noexcept {
  if (from == DType::u16) {
    if (to == DType::u16) return copy_tokens<std::uint16_t>;
    if (to == DType::i64) return widen_tokens<std::uint64_t, std::uint16_t>;
    return widen_to_32;
  }
  if (to == DType::u32) return copy_tokens<std::uint32_t>;
  if (to == DType::i32) return sign_tokens;
  return to == DType::i64 ? widen_tokens<std::uint64_t, std::uint32_t> : nullptr;
}

/// Neighbouring windows that are wanted together are read as one piece, up to this size.
constexpr std::uint64_t kMostRunBytes = 256 << 10;

class TokenShardsSource final : public Source {
 public:
  TokenShardsSource(std::shared_ptr<const Shards> shards, std::uint64_t window,
                    const TokenShardsOptions& options)
      : shards_(std::move(shards)),
        window_(window),
        options_(options),
        component_{"tokens", options.dtype,
                   Shape({options.keep_remainder ? Shape::kUnknown
                                                 : static_cast<std::int64_t>(window + 1)})},
        whole_({static_cast<std::int64_t>(window + 1)}),
        names_(Names::intern(std::vector<std::string>{component_.name})),
        blocking_(shards_->open(0).file->blocking()) {
    const std::vector<TokenFile> files = read_headers(*shards_, options.stored);
    std::size_t largest = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      add(i, files[i]);
      if (files[i].count > files[largest].count) largest = i;
    }
    const bool alike = std::ranges::all_of(
        files, [&](const TokenFile& file) { return file.stored == files[0].stored; });
    if (alike && !options.keep_remainder) {
      every_bytes_ = (window + 1) * (size_of(files[0].stored) + size_of(options.dtype));
    }
    if (size() > 0) return;
    throw refused(shards_->path(largest),
                  "no file has the " + std::to_string(options.keep_remainder ? 2 : window + 1) +
                      " tokens of a window; this one has " + std::to_string(files[largest].count));
  }

  std::string name() const override { return "token_shards"; }
  void describe(Description& description) const override {
    description.add("window", window_);
    description.add("stored", name_of(options_.stored));
    description.add("dtype", name_of(options_.dtype));
    description.add("keep_remainder", options_.keep_remainder);
    shards_->describe(description);
  }
  Spec spec() const override { return Spec({component_}); }
  std::optional<std::uint64_t> size() const override { return parts_.back().first; }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    if (every_bytes_ > 0) return every_bytes_;
    const Part& part = parts_[shard_of(index)];
    return tokens_of(part, index) * (part.width + size_of(options_.dtype));
  }
  Provenance locate(std::uint64_t index) const override {
    const std::size_t shard = shard_of(index);
    const Part& part = parts_[shard];
    return {.shard = shards_->path(shard),
            .offset = static_cast<std::int64_t>(offset_of(part, index)),
            .index = static_cast<std::int64_t>(index),
            .stage = {},
            .length = static_cast<std::int64_t>(tokens_of(part, index) * part.width)};
  }
  void read(std::span<ReadItem> items, ReadContext& context) const override;

 private:
  /// The windows of one shard.
  struct Part {
    std::uint64_t first = 0;  ///< number of the first one
    std::uint64_t begin = 0;  ///< offset of the first token
    std::uint64_t count = 0;  ///< of tokens
    std::uint64_t width = 0;  ///< bytes of a token
    Convert convert = nullptr;
  };
  /// A window that is wanted.
  struct Wanted {
    std::uint64_t index;
    std::size_t item;
  };

  void add(std::size_t shard, const TokenFile& file) {
    const Convert convert = conversion(file.stored, options_.dtype);
    if (convert == nullptr) {
      throw refused(shards_->path(shard), "tokens of " + std::string(name_of(file.stored)) +
                                              " do not fit " +
                                              std::string(name_of(options_.dtype)));
    }
    const std::uint64_t strides = file.count == 0 ? 0 : file.count - 1;
    const bool rest = options_.keep_remainder && strides % window_ != 0;
    Part& part = parts_.back();
    part.begin = file.begin;
    part.count = file.count;
    part.width = size_of(file.stored);
    part.convert = convert;
    parts_.push_back({.first = part.first + strides / window_ + (rest ? 1 : 0)});
  }

  std::size_t shard_of(std::uint64_t index) const noexcept {
    const auto next = std::ranges::upper_bound(parts_, index, {}, &Part::first);
    return static_cast<std::size_t>(next - parts_.begin()) - 1;
  }
  std::uint64_t offset_of(const Part& part, std::uint64_t index) const noexcept {
    return part.begin + (index - part.first) * window_ * part.width;
  }
  std::uint64_t tokens_of(const Part& part, std::uint64_t index) const noexcept {
    return std::min(window_ + 1, part.count - (index - part.first) * window_);
  }

  void find_runs(std::span<const Wanted> wanted, std::vector<ReadPiece>& runs) const;
  void read_in_place(std::span<const Wanted> wanted, std::span<ReadItem> items,
                     std::vector<ReadPiece>& runs, ReadContext& context) const;
  void deliver(std::span<const Wanted> wanted, const ReadPiece& run, std::span<ReadItem> items,
               std::vector<ReadPiece>& alone, ReadContext& context) const;
  std::byte* prepare(ReadItem& item, std::uint64_t count, ReadContext& context) const;

  /// Bytes by which tokens grow in an element. They are never negative.
  std::uint64_t growth(const Part& part, std::uint64_t count) const noexcept {
    return count * (size_of(options_.dtype) - part.width);
  }

  const std::shared_ptr<const Shards> shards_;
  const std::uint64_t window_;
  const TokenShardsOptions options_;
  const ComponentSpec component_;
  const Shape whole_;
  const Names* const names_;
  const bool blocking_;
  std::vector<Part> parts_{1};     // and one behind the last shard
  std::uint64_t every_bytes_ = 0;  // `record_bytes` of every window; 0: it differs
};

void TokenShardsSource::read(std::span<ReadItem> items, ReadContext& context) const {
  thread_local std::vector<Wanted> wanted;
  thread_local std::vector<ReadPiece> runs;
  wanted.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].status.ok()) wanted.push_back({items[i].index, i});
  }
  // In the order of the files. Sorted here, where they are small.
  if (!std::ranges::is_sorted(wanted, {}, &Wanted::index)) {
    std::ranges::sort(wanted, {}, &Wanted::index);
  }
  find_runs(wanted, runs);
  read_in_place(wanted, items, runs, context);
  std::vector<ReadPiece> alone;
  const auto arrived = [&](const ReadPiece& run) { deliver(wanted, run, items, alone, context); };
  read_pieces(*shards_, runs, context, arrived);
  if (!alone.empty()) read_pieces(*shards_, alone, context, arrived);
  runs.clear();
}

void TokenShardsSource::find_runs(std::span<const Wanted> wanted,
                                  std::vector<ReadPiece>& runs) const {
  runs.clear();
  std::size_t shard = wanted.empty() ? 0 : shard_of(wanted.front().index);
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const std::uint64_t index = wanted[k].index;
    const bool follows =
        k > 0 && index == wanted[k - 1].index + 1 && index < parts_[shard + 1].first;
    if (index >= parts_[shard + 1].first) shard = shard_of(index);
    const Part& part = parts_[shard];
    const std::uint64_t offset = offset_of(part, index);
    const std::uint64_t size = tokens_of(part, index) * part.width;
    if (follows && offset + size - runs.back().offset <= kMostRunBytes) {
      runs.back().size = offset + size - runs.back().offset;
    } else {
      runs.push_back({.item = k, .shard = shard, .offset = offset, .size = size});
    }
  }
}
/// Lets each run of one window be read to the end of the place where its tokens go. Removes runs
/// for which there is no memory.
void TokenShardsSource::read_in_place(std::span<const Wanted> wanted, std::span<ReadItem> items,
                                      std::vector<ReadPiece>& runs, ReadContext& context) const {
  std::erase_if(runs, [&](ReadPiece& run) {
    const Part& part = parts_[run.shard];
    const std::uint64_t count = run.size / part.width;
    if (count > window_ + 1) return false;
    std::byte* const out = prepare(items[wanted[run.item].item], count, context);
    if (out != nullptr) run.out = out + growth(part, count);
    return out == nullptr;
  });
}

/// `run.item` is the place in `wanted` of the first window of the run.
void TokenShardsSource::deliver(std::span<const Wanted> wanted, const ReadPiece& run,
                                std::span<ReadItem> items, std::vector<ReadPiece>& alone,
                                ReadContext& context) const {
  const Part& part = parts_[run.shard];
  const std::uint64_t stride = window_ * part.width;
  std::size_t k = run.item;
  for (std::uint64_t at = 0; at + part.width < run.size; at += stride, ++k) {
    const std::uint64_t size = std::min(stride + part.width, run.size - at);
    const std::uint64_t count = size / part.width;
    ReadItem& item = items[wanted[k].item];
    item.status = run.status;
    if (!item.status.ok()) {
      item.element.clear();
      // Perhaps only one of several can't be read.
      if (size < run.size) {
        alone.push_back({.item = k, .shard = run.shard, .offset = run.offset + at, .size = size});
      }
      continue;
    }
    std::byte* const out =
        run.out != nullptr ? run.out - growth(part, count) : prepare(item, count, context);
    if (out != nullptr && !part.convert(run.bytes.data() + at, out, count)) {
      item.element.clear();
      item.status = Status(ErrorCode::data_loss, "a token above 2147483647, which i32 cannot hold");
    }
  }
}

/// Makes the element of `count` tokens, and returns where they go: to the row of the batch, or to
/// memory of its own. Returns null if there is none, which is then the item's status.
std::byte* TokenShardsSource::prepare(ReadItem& item, std::uint64_t count,
                                      ReadContext& context) const {
  std::byte* out = item.row ? item.row.data(0) : nullptr;
  BufferPtr owner;
  if (out == nullptr) {
    try {
      owner = context.allocate(count * size_of(options_.dtype));
      out = owner->data();
    } catch (...) {
      item.status = status_from_current_exception();
      return nullptr;
    }
  }
  item.element.reset(names_);
  item.element[0] =
      Tensor(options_.dtype, count > window_ ? whole_ : Shape({static_cast<std::int64_t>(count)}),
             out, std::move(owner));
  return out;
}

}  // namespace

SourcePtr make_token_shards_source(const Paths& paths, std::int64_t window,
                                   const TokenShardsOptions& options) {
  const auto invalid = [](const std::string& cause) {
    return Error(ErrorCode::invalid_argument, "token_shards: " + cause);
  };
  if (window < 1) throw invalid("a window of " + std::to_string(window) + " tokens");
  if (options.stored != DType::u16 && options.stored != DType::u32) {
    throw invalid("stored tokens are u16 or u32, not " + std::string(name_of(options.stored)));
  }
  if (options.dtype != DType::i32 && options.dtype != DType::i64 && options.dtype != DType::u16 &&
      options.dtype != DType::u32) {
    throw invalid("tokens become i32, i64, u16 or u32, not " + std::string(name_of(options.dtype)));
  }
  const auto tokens = static_cast<std::uint64_t>(window) + 1;
  // The largest of both types, before or after conversion.
  const std::uint64_t width =
      std::max<std::uint64_t>(sizeof(std::uint32_t), size_of(options.dtype));
  if (tokens > options.limits.max_record_bytes / width) {
    throw Error(ErrorCode::out_of_range, "token_shards: windows of " + std::to_string(tokens) +
                                             " tokens exceed the limit of " +
                                             std::to_string(options.limits.max_record_bytes) +
                                             " bytes");
  }
  const auto shards = std::make_shared<const Shards>(options.files, paths);
  return made_patiently([&] {
    return std::make_shared<const TokenShardsSource>(shards, static_cast<std::uint64_t>(window),
                                                     options);
  });
}

}  // namespace penstock
