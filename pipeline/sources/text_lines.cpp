// The source that reads text files line by line.
#include <penstock/sources.h>

#include "pipeline/sources/text_records.h"

namespace penstock {
namespace {

class TextLinesSource final : public Source {
 public:
  TextLinesSource(const Paths& paths, const FileOptions& options)
      : records_(paths, options, {.kind = "lines", .make_scanner = make_line_scanner}),
        names_(Names::intern(std::vector<std::string>{"line"})) {}

  std::string name() const override { return "text_lines"; }
  void describe(Description& description) const override { records_.describe(description); }
  Spec spec() const override { return Spec({{"line", DType::bytes, {}}}); }
  std::optional<std::uint64_t> size() const override { return records_.size(); }
  bool blocking() const override { return records_.blocking(); }
  bool shares_buffers() const override { return true; }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return records_.record_bytes(index);
  }
  Provenance locate(std::uint64_t index) const override { return records_.locate(index); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    records_.read(items, context,
                  [&](std::size_t i, std::string_view line, const BufferPtr& owner) {
                    items[i].element.reset(names_);
                    items[i].element[0] = Tensor::bytes(without_end(line), owner);
                  });
  }

 private:
  TextRecords records_;
  const Names* names_;
};

}  // namespace

SourcePtr make_text_lines_source(const Paths& paths, const FileOptions& options) {
  return std::make_shared<TextLinesSource>(paths, options);
}

}  // namespace penstock
