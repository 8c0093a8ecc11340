// The file in which a cache keeps its elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/source.h>
#include <penstock/spec.h>

#include "pipeline/io/exclusive_file.h"

namespace penstock {

// The file's format, with all numbers little endian. It begins with the 17 bytes
// "penstock cache 2\n", filled up with zeros to 64. The key's graph and contents (two u64), the
// size of its marks (u64) and zeros up to 128 bytes follow, then the marks. Then come the records,
// each as encode_element makes it. The index has three u64 for each record: offset, bytes, ordinal.
// The end holds the index's offset (u64), the number of records (u64) and the key's graph (u64).
// Its last parts are the CRC32C of the index (u32) and that of the 28 bytes before (u32).

/// Identifies the input of a cache file.
struct CacheKey {
  std::uint64_t graph = 0;     ///< the fingerprint's digest and, if anything is random, the seed
  std::uint64_t contents = 0;  ///< the contents of the files; 0: unknown
  std::string marks{};         ///< the fingerprint as a state, which tells what differs
};

/// Writes a cache file. The file appears once `commit` has returned. Used by one thread.
class CacheFileWriter {
 public:
  /// Throws Error{unavailable} if another run is writing the file.
  CacheFileWriter(const std::string& path, const CacheKey& key);
  void add(const Element& element, std::uint64_t ordinal, const Provenance& where);
  void commit();
  std::uint64_t count() const noexcept { return index_.size() / 3; }

 private:
  ExclusiveFile file_;
  std::uint64_t key_;
  std::vector<std::uint64_t> index_;
  std::vector<std::byte> record_;
};

/// A source of the elements in a cache file, with an index.
class CacheFileSource final : public Source {
 public:
  /// Returns null if there is no such file, or if it has another key. If only the contents differ,
  /// calls `other` with the marks of the file. A key with unknown contents fits any. Throws
  /// Error{data_loss} if the file is damaged, and Error{invalid_argument} if it is not a cache file
  /// and so must not be overwritten.
  static std::shared_ptr<const CacheFileSource> open(
      const std::string& path, const CacheKey& key, const Spec& spec,
      const std::function<void(const std::string& marks)>& other);

  std::string name() const override { return "cache_file"; }
  void describe(Description& description) const override;
  Spec spec() const override { return spec_; }
  std::optional<std::uint64_t> size() const override { return index_.size() / 3; }
  std::uint64_t ordinal(std::uint64_t index) const { return index_[3 * index + 2]; }
  void read(std::span<WorkItem> items, ReadContext& context) const override;
  bool blocking() const override { return file_->blocking(); }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return small_ ? 0 : index_[3 * index + 1];
  }
  /// Returns the place of the record that the element was made from.
  Provenance locate(std::uint64_t index) const override;

 private:
  CacheFileSource(std::shared_ptr<File> file, std::vector<std::uint64_t> index, Spec spec);
  void read_small(std::span<WorkItem> items) const;
  void decode(WorkItem& item, const BufferPtr& record, std::size_t size) const;
  Error damaged(std::uint64_t index, const Error& error) const;

  std::shared_ptr<File> file_;
  std::vector<std::uint64_t> index_;
  Spec spec_;
  const Names* names_;
  bool small_;  // elements need no memory of their own
};

}  // namespace penstock
