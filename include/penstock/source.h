// The contract of a source: where records come from.
#pragma once

#include <cstddef>
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

/// The memory that a source's records live in: reused, and counted against the byte budget.
class ReadContext {
 public:
  virtual ~ReadContext() = default;
  /// Returns a buffer of at least `bytes` bytes. Its memory is reused once the last tensor that
  /// shares it is gone. Throws Error{resource_exhausted}.
  virtual BufferPtr allocate(std::size_t bytes) = 0;
  /// States that records end at these bytes of such a buffer. The byte budget then counts each as
  /// if it had a buffer of its own, as it has if it is read alone. Call it in the order of the
  /// bytes, before `read` returns. It is not needed where tensors view whole records.
  virtual void note_records(const BufferPtr& /*buffer*/, std::span<const std::size_t> /*ends*/) {}
  /// Returns true if a read that has failed `tries` times with this error must be repeated, and
  /// waits before it returns. For streams only: the engine itself repeats reads of an indexed
  /// source.
  virtual bool again(const Error& /*error*/, int /*tries*/) { return false; }
  /// Returns RunOptions::trust_data: files may have another ctime than when they were found.
  virtual bool trust_data() const noexcept { return false; }
};

/// The place of one element's values in the batch that is being built: a row of a slot, component
/// by component.
class Row {
 public:
  /// No row.
  Row() = default;
  /// Row `index` of the components at `bases`, whose rows lie `strides` bytes apart.
  Row(std::byte* const* bases, const std::size_t* strides, std::size_t index) noexcept
      : bases_(bases), strides_(strides), index_(index) {}
  /// Returns true if there is a row.
  explicit operator bool() const noexcept { return bases_ != nullptr; }
  /// Returns the memory of component `i` of the output spec, as large as its shape says. Returns
  /// null if the component has no fixed size (byte strings), or is not kept.
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
  std::uint64_t ordinal = 0;  ///< identifies the element; keys its random numbers
  /// Set it to fail the element. Later ops leave items that failed alone.
  Status status;
  bool keep = true;      ///< a predicate sets it to false to drop the element
  std::int64_t key = 0;  ///< set by ops that compute an element's key, class or length
  /// Set for the last op before a batch (or the source, if there is no op). Components of fixed
  /// size may be written straight to `row.data(i)`; the op then returns a tensor that views that
  /// memory. The engine copies tensors that live elsewhere.
  Row row;
};
/// The same, for a source.
using ReadItem = WorkItem;

/// A reader of the records of a source that has no index, front to back. One thread uses it.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  /// Reads the next record, or returns false at the end. A damaged record is an item with a status.
  /// The stream then continues after it or, if it can't find its place, with the next shard. Sets
  /// `item.index`.
  virtual bool next(ReadItem& item, ReadContext& context) = 0;
  /// Skips `count` records without delivering them. The default reads them.
  virtual void skip(std::uint64_t count, ReadContext& context);
  /// Returns the place of the record that `next` returned last, for later errors of this record. It
  /// is valid until the next call. The engine asks for every record, so this should be cheap.
  virtual const Provenance& locate() const;
};

/// The origin of records. Immutable after construction and thread-safe: one source serves any
/// number of iterators. A source is either indexed (`size` has a value, `read` serves any indices)
/// or a stream.
class Source {
 public:
  virtual ~Source() = default;

  /// Returns the word used in explain, errors and fingerprints: "tar", "range".
  virtual std::string name() const = 0;
  /// Adds the options and the shards of the source to `description`.
  virtual void describe(Description& description) const = 0;
  /// Returns the spec of a record.
  virtual Spec spec() const = 0;

  /// Returns the names that the labels count, in label order; empty if there are none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Returns what follows the key of a record in the name of the part that holds its label: ".cls"
  /// for members of tar shards. Empty if labels are no parts by themselves.
  virtual std::string label_extension() const { return {}; }

  /// Returns the number of records of an indexed source; nothing for a stream.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  /// Returns the number of records of a stream, if it is known; -1 infinite, -2 unknown.
  virtual std::int64_t stream_cardinality() const { return -2; }

  /// Reads any records, each on its own: a record that fails does not affect the others. Many
  /// threads call it. REQUIRES: size(), and every index below it.
  virtual void read(std::span<ReadItem> items, ReadContext& context) const;
  /// Returns true if `read_columns` may be called instead of `read`: every record has the same
  /// fixed size, and reading can't fail.
  virtual bool columnar() const { return false; }
  /// Writes records one after another: component i of record k goes to row k of `out[i]`, a
  /// contiguous tensor of shape [indices.size(), ...]. Many threads call it.
  virtual void read_columns(std::span<const std::uint64_t> indices, Element& out) const;
  /// Returns true if `read_texts` may be called instead of `read`: a record is one byte string.
  virtual bool textual() const { return false; }
  /// Puts the bytes of record k in `texts[k]`, and the owner of their memory in `owners[k]`. Adds
  /// the positions of records it cannot read this way to `left`; the engine reads them with `read`,
  /// which gives the reason. Many threads call it.
  virtual void read_texts(std::span<const std::uint64_t> indices, std::span<std::string_view> texts,
                          std::span<BufferPtr> owners, std::vector<std::size_t>& left,
                          ReadContext& context) const;
  /// Returns true if `read` may wait (for a disk, a network). It then runs off the compute threads.
  virtual bool blocking() const { return false; }
  /// Returns the host bytes that reading this record takes, so that they can be reserved before. It
  /// may be an upper bound.
  virtual std::uint64_t record_bytes(std::uint64_t index) const;
  /// Returns true if nearly all records of one `read` share buffers. Otherwise each one takes a
  /// buffer of at least 256 bytes.
  virtual bool shares_buffers() const { return false; }
  /// Returns the place of a record, for errors.
  virtual Provenance locate(std::uint64_t index) const;

  /// Returns false if the source calls user code, which alone decides whether every pass gives the
  /// same records.
  virtual bool deterministic() const { return true; }

  /// Returns a new stream over all records. REQUIRES: !size().
  virtual std::unique_ptr<RecordStream> stream() const;
};

/// A shared source.
using SourcePtr = std::shared_ptr<const Source>;

}  // namespace penstock
