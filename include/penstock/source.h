// The contract of a source: where records come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/description.h>
#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/spec.h>

namespace penstock {

/// Gives a source the memory its records live in: recycled, and counted against the byte budget.
class ReadContext {
 public:
  virtual ~ReadContext() = default;
  /// A buffer of at least `bytes` bytes; its memory is reused once the last tensor that shares it
  /// is gone. Throws Error{resource_exhausted}.
  virtual BufferPtr allocate(std::size_t bytes) = 0;
  /// True if a read that has failed `tries` times with this error is to be done again; waits before
  /// it says so. For streams: what an indexed source could not read the engine asks for again.
  virtual bool again(const Error& /*error*/, int /*tries*/) { return false; }
};

/// Where one element's values go in the batch being built: a row of a slot, component by component.
class Row {
 public:
  Row() = default;
  Row(std::byte* const* bases, const std::size_t* strides, std::size_t index) noexcept
      : bases_(bases), strides_(strides), index_(index) {}
  explicit operator bool() const noexcept { return bases_ != nullptr; }
  /// Memory of component `i` of the output spec, as large as its shape says; null if the component
  /// has no fixed size (byte strings).
  std::byte* data(std::size_t i) const noexcept {
    return bases_[i] == nullptr ? nullptr : bases_[i] + strides_[i] * index_;
  }

 private:
  std::byte* const* bases_ = nullptr;
  const std::size_t* strides_ = nullptr;
  std::size_t index_ = 0;
};

/// One element on its way from a source through a chain of ops.
struct WorkItem {
  Element element;            ///< a source fills it; an op replaces it by its output
  std::uint64_t index = 0;    ///< the record to read
  std::uint64_t ordinal = 0;  ///< names the element; keys its random numbers
  Status status;         ///< set to fail the element; items that failed are left alone from then on
  bool keep = true;      ///< a predicate sets it to false to drop the element
  std::int64_t key = 0;  ///< set by what asks for an element's key, class or length
  /// Set for the last op before a batch (or the source, if there is no op): components of fixed
  /// size may be written straight to `row.data(i)`, returning a tensor that views that memory.
  /// Tensors that live elsewhere are copied there by the engine.
  Row row;
};
using ReadItem = WorkItem;

/// Reads the records of a source that has no index, front to back. Used by one thread.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  /// The next record, or false at the end. A damaged record is an item with a status; the stream
  /// then goes on behind it or, where it can't find its place again, with the next shard. Sets
  /// `item.index`.
  virtual bool next(ReadItem& item, ReadContext& context) = 0;
  /// Passes over `count` records without delivering them. The default reads them.
  virtual void skip(std::uint64_t count, ReadContext& context);
  /// Where the record that `next` returned last lies, for the errors of whatever is done with it;
  /// valid until the next call. Asked for every record, so it should be at hand.
  virtual const Provenance& locate() const;
};

/// Where records come from. Immutable after construction and thread-safe: one source serves any
/// number of iterators. A source is either indexed (`size` has a value, `read` serves any indices)
/// or a stream.
class Source {
 public:
  virtual ~Source() = default;

  /// "tar", "range": the word used in explain, errors and fingerprints.
  virtual std::string name() const = 0;
  virtual void describe(Description& description) const = 0;
  virtual Spec spec() const = 0;

  /// The names that the labels count, in label order; empty if there are none.
  virtual std::vector<std::string> class_names() const { return {}; }

  /// Number of records of an indexed source; nothing for a stream.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  /// Number of records of a stream if it is known all the same; -1 infinite, -2 unknown.
  virtual std::int64_t stream_cardinality() const { return -2; }

  /// Reads any records, each on its own: one that fails does not affect the others. Called from
  /// many threads. REQUIRES: size(), and every index below it.
  virtual void read(std::span<ReadItem> items, ReadContext& context) const;
  /// True if `read_columns` may be called instead of `read`: every record has the same fixed size,
  /// and reading can't fail.
  virtual bool columnar() const { return false; }
  /// Writes records one behind another: component i of the k-th to row k of `out[i]`, a contiguous
  /// tensor of shape [indices.size(), ...]. Called from many threads.
  virtual void read_columns(std::span<const std::uint64_t> indices, Element& out) const;
  /// True if `read_texts` may be called instead of `read`: a record is one byte string.
  virtual bool textual() const { return false; }
  /// Puts the k-th record's bytes in `texts[k]`, and what keeps them alive in `owners[k]`. Adds the
  /// numbers of those that it can't have so to `left`: `read` will be asked for them, and say why.
  /// Called from many threads.
  virtual void read_texts(std::span<const std::uint64_t> indices, std::span<std::string_view> texts,
                          std::span<BufferPtr> owners, std::vector<std::size_t>& left,
                          ReadContext& context) const;
  /// True if `read` may wait (for a disk, a network): it is then kept off the compute threads.
  virtual bool blocking() const { return false; }
  /// Host bytes that reading this record takes, so that they can be reserved before. May be an
  /// upper bound.
  virtual std::uint64_t record_bytes(std::uint64_t index) const;
  virtual Provenance locate(std::uint64_t index) const;

  /// False if it is up to the user, whose code is called, that every pass gives the same records.
  virtual bool deterministic() const { return true; }

  /// A new stream over all records. REQUIRES: !size().
  virtual std::unique_ptr<RecordStream> stream() const;
};

using SourcePtr = std::shared_ptr<const Source>;

}  // namespace penstock
