// The source that reads files of records of one size.
#include <penstock/sources.h>

#include "pipeline/sources/fixed_rows.h"
#include "pipeline/sources/parallel.h"

namespace penstock {
namespace {

class FixedRecordsSource final : public Source {
 public:
  FixedRecordsSource(const Paths& paths, std::uint64_t record_bytes,
                     const FixedRecordOptions& options)
      : rows_(std::make_shared<const Shards>(options.files, paths), record_bytes,
              options.limits.max_record_bytes),
        header_(options.header_bytes),
        footer_(options.footer_bytes),
        component_{"record", DType::u8, Shape({static_cast<std::int64_t>(record_bytes)})},
        names_(Names::intern(std::vector<std::string>{component_.name})),
        blocking_(rows_.blocking()) {
    for (std::size_t i = 0; i < rows_.shards().size(); ++i) {
      const std::uint64_t size = rows_.shards().info(i).size;
      if (header_ > size || footer_ > size - header_) {
        throw Error(ErrorCode::data_loss,
                    "the file has " + std::to_string(size) + " bytes, fewer than its header of " +
                        std::to_string(header_) + " and footer of " + std::to_string(footer_),
                    {.shard = rows_.shards().path(i), .stage = {}});
      }
      rows_.add(header_, size - footer_, std::nullopt, 0);
    }
  }

  std::string name() const override { return "fixed_records"; }
  void describe(Description& description) const override {
    description.add("record_bytes", rows_.row_bytes());
    description.add("header_bytes", header_);
    description.add("footer_bytes", footer_);
    rows_.describe(description);
  }
  Spec spec() const override { return Spec({component_}); }
  std::optional<std::uint64_t> size() const override { return rows_.size(); }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t) const override { return rows_.row_bytes(); }
  Provenance locate(std::uint64_t index) const override { return rows_.locate(index); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    rows_.read(items, context, [&](std::size_t i, const ReadPiece& piece) {
      items[i].element.reset(names_);
      place_row(items[i], 0, component_, piece, false, context);
    });
  }

 private:
  FixedRows rows_;
  std::uint64_t header_;
  std::uint64_t footer_;
  ComponentSpec component_;
  const Names* names_;
  bool blocking_;
};

}  // namespace

SourcePtr make_fixed_records_source(const Paths& paths, std::uint64_t record_bytes,
                                    const FixedRecordOptions& options) {
  if (record_bytes == 0) throw Error(ErrorCode::invalid_argument, "fixed_records of 0 bytes");
  return made_patiently(
      [&] { return std::make_shared<const FixedRecordsSource>(paths, record_bytes, options); });
}

}  // namespace penstock
