// The source that reads CIFAR-10's binary files.
#include <penstock/internal/other_format.h>
#include <penstock/sources.h>

#include "pipeline/sources/fixed_rows.h"
#include "pipeline/sources/parallel.h"

namespace penstock {
namespace {

constexpr std::size_t kPlane = 32 * 32;
constexpr std::size_t kImage = 3 * kPlane;
constexpr std::size_t kRecord = 1 + kImage;
constexpr int kClasses = 10;

class Cifar10Source final : public Source {
 public:
  Cifar10Source(const Paths& paths, const FileOptions& options)
      : rows_(std::make_shared<const Shards>(options.files, paths), kRecord,
              options.limits.max_record_bytes),
        names_(Names::intern(std::vector<std::string>{"image", "label"})),
        blocking_(rows_.blocking()) {
    for (std::size_t i = 0; i < rows_.shards().size(); ++i) {
      const std::uint64_t size = rows_.shards().info(i).size;
      // A file that is damaged is still read as far as it goes.
      if (size % kRecord != 0) refuse_other_format(*rows_.shards().open(i).file);
      rows_.add(0, size, std::nullopt, 0);
    }
  }

  std::string name() const override { return "cifar10"; }
  void describe(Description& description) const override { rows_.describe(description); }
  Spec spec() const override {
    return Spec({{"image", DType::u8, kShape}, {"label", DType::i64, {}}});
  }
  std::vector<std::string> class_names() const override {
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  }
  std::optional<std::uint64_t> size() const override { return rows_.size(); }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t) const override { return kRecord + kImage; }
  Provenance locate(std::uint64_t index) const override { return rows_.locate(index); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    rows_.read(items, context, [&](std::size_t i, const ReadPiece& piece) {
      unpack(items[i], piece.bytes, context);
    });
  }

 private:
  void unpack(ReadItem& item, std::span<const std::byte> record, ReadContext& context) const {
    const auto label = std::to_integer<std::int64_t>(record[0]);
    if (label >= kClasses) {
      item.status = Status(ErrorCode::data_loss,
                           "label " + std::to_string(label) + " of a record; CIFAR-10 has 10");
      return;
    }
    BufferPtr owner;
    std::byte* place = item.row ? item.row.data(0) : nullptr;
    if (place == nullptr) {
      owner = context.allocate(kImage);
      place = owner->data();
    }
    const std::byte* planes = record.data() + 1;
    for (std::size_t i = 0; i < kPlane; ++i) {
      place[3 * i] = planes[i];
      place[3 * i + 1] = planes[kPlane + i];
      place[3 * i + 2] = planes[2 * kPlane + i];
    }
    item.element.reset(names_);
    item.element[0] = Tensor(DType::u8, kShape, place, std::move(owner));
    item.element[1] = Tensor::scalar(label);
  }

  static inline const Shape kShape{32, 32, 3};

  FixedRows rows_;
  const Names* names_;
  bool blocking_;
};

}  // namespace

SourcePtr make_cifar10_source(const Paths& paths, const FileOptions& options) {
  return made_patiently([&] { return std::make_shared<const Cifar10Source>(paths, options); });
}

}  // namespace penstock
