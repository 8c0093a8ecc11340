// The source that reads NumPy arrays.
#include <penstock/sources.h>

#include "pipeline/sources/fixed_rows.h"
#include "pipeline/sources/npy_format.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/sources/shards.h"

namespace penstock {
namespace {

std::string text_of(const NpyHeader& header) {
  return std::string(name_of(header.dtype)) + " " + header.shape.to_string();
}

std::vector<NpyHeader> read_headers(const Shards& shards) {
  std::vector<NpyHeader> headers;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const NpyHeader header = read_npy_header(*shards.open(i).file);
    if (header.shape.rank() == 0) throw refused(shards.path(i), "a scalar has no rows");
    if (header.fortran_order && header.shape.rank() > 1) {
      throw refused(shards.path(i),
                    "an array in Fortran order: its rows are scattered; save it in C order "
                    "(numpy.ascontiguousarray)");
    }
    headers.push_back(header);
    const NpyHeader& first = headers.front();
    if (header.dtype != first.dtype || header.shape.drop_front() != first.shape.drop_front()) {
      throw refused(shards.path(i), "an array of " + text_of(header) + ", but " + shards.path(0) +
                                        " is one of " + text_of(first));
    }
  }
  return headers;
}

class NpySource final : public Source {
 public:
  NpySource(std::shared_ptr<const Shards> shards, const std::vector<NpyHeader>& headers,
            const Limits& limits)
      : rows_(shards, row_bytes_of(headers.front().dtype, headers.front().shape.drop_front()),
              limits.max_record_bytes),
        component_{"value", headers.front().dtype, headers.front().shape.drop_front()},
        names_(Names::intern(std::vector<std::string>{component_.name})),
        blocking_(rows_.blocking()) {
    for (std::size_t i = 0; i < headers.size(); ++i) {
      swapped_.push_back(headers[i].swapped);
      rows_.add(headers[i].data_offset, shards->info(i).size,
                static_cast<std::uint64_t>(headers[i].shape[0]), limits.max_members);
    }
  }

  std::string name() const override { return "npy"; }
  void describe(Description& description) const override { rows_.describe(description); }
  Spec spec() const override { return Spec({component_}); }
  std::optional<std::uint64_t> size() const override { return rows_.size(); }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t) const override { return 2 * rows_.row_bytes(); }
  Provenance locate(std::uint64_t index) const override { return rows_.locate(index); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    rows_.read(items, context, [&](std::size_t i, const ReadPiece& piece) {
      items[i].element.reset(names_);
      place_row(items[i], 0, component_, piece, swapped_[piece.shard], context);
    });
  }

 private:
  FixedRows rows_;
  ComponentSpec component_;
  std::vector<bool> swapped_;
  const Names* names_;
  bool blocking_;
};

}  // namespace

SourcePtr make_npy_source(const Paths& paths, const FileOptions& options) {
  const auto shards = std::make_shared<const Shards>(options.files, paths);
  return made_patiently([&] {
    return std::make_shared<const NpySource>(shards, read_headers(*shards), options.limits);
  });
}

}  // namespace penstock
