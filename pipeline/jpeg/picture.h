// The decoding of a region of one image, from its scan to rows of pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/codec/codec.h"
#include "pipeline/jpeg/header.h"
#include "pipeline/jpeg/rows.h"
#include "pipeline/jpeg/scan.h"
#include "pipeline/jpeg/strip_plan.h"

namespace penstock::jpeg {

struct Record;

/// A component's samples around the row of MCUs that was decoded last. First come the rows above it
/// that are still needed, then its own rows.
struct Strip : StripPlan {
  bool needed = false;
  int vertical = 1;  ///< rows of blocks in an iMCU row
  int top = 0;       ///< number of the first kept row
  int kept = 0;      ///< number of kept rows
  std::size_t stride = 0;
  std::uint8_t* samples = nullptr;
  std::uint8_t* pixels = nullptr;  ///< an upsampled row
};

/// A decoder of regions. Keeps its memory from one image to the next, unless it is large. Not
/// synchronised.
class Picture {
 public:
  Picture() = default;
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  /// Prepares for a file whose header was read, and for pixels of `channels` channels, 1 or 3.
  /// Returns the reason why that is impossible, or none.
  Foreign begin(const Header& header, std::span<const std::byte> file, int channels);
  /// Prepares for an image whose blocks do not come from its scan.
  Foreign begin(const Header& header, int channels);
  /// Chooses what to decode. `plan` lies within the image. Asks `sink` for room. Returns the reason
  /// why that is impossible, or none.
  Foreign choose(const image::DecodePlan& plan, std::uint64_t max_bytes, image::PixelSink& sink);
  /// Call it after `choose` for a file in an indexed record, which must outlive the image: then
  /// only the intervals that the region touches are decoded. Throws Error{data_loss} if the
  /// intervals do not fit the file.
  void use_intervals(const Record& record);
  image::Size shrunk() const noexcept { return shrunk_; }
  /// Begins the next row of MCUs. The caller then decodes `scan` to its end. Throws
  /// Error{data_loss} if the row lies in damaged parts of a record.
  void begin_row();
  Scan& scan() noexcept { return scan_; }
  /// Ends that row. Gives pixels to the sink if there are complete rows.
  enum class Progress {
    more,
    done,
    /// The image, with the rows that were not given yet, is left to libjpeg-turbo.
    left
  };
  Progress end_row(image::PixelSink& sink);

  /// Replaces begin_row and end_row for blocks that do not come from a scan. If the row is wanted,
  /// the caller transforms blocks before it calls close_row. For each component with a `side`,
  /// these are the `vertical` rows of blocks in iMCU row `row()`. They go to the plane's target.
  void open_row();
  bool wanted() const noexcept;
  int row() const noexcept { return next_imcu_; }
  /// Ends the row. Gives pixels to the sink if there are complete rows. Returns more or done.
  Progress close_row(image::PixelSink& sink);
  int given() const noexcept { return given_; }

 private:
  /// The most rows of pixels that are given at once.
  static constexpr int kRows = 8;
  /// The memory in front of a row of samples, and behind it.
  static constexpr std::size_t kMargin = 64;

  bool layout(std::uint64_t max_bytes, image::PixelSink& sink);
  void let_go() noexcept;
  void make_room(Strip& strip, int imcu_row);
  void pad_edges(Strip& strip, int imcu_row);
  void give(int end, image::PixelSink& sink);
  const std::uint8_t* sample_row(const Strip& strip, int y) const noexcept;
  const std::uint8_t* pixel_row(Strip& strip, int y);
  void jump();

  const Header* header_ = nullptr;
  int channels_ = 3;
  TableCache tables_;
  Scan scan_;
  std::array<Strip, 3> strips_;
  const RowKernels* kernels_ = nullptr;
  image::Size shrunk_;
  image::Rect region_;
  bool whole_ = false;
  bool context_ = false;  ///< pixels of one row group depend on the next group
  int side_ = 8;          ///< of a block of the component that is shrunk most
  int imcu_height_ = 8;   ///< in pixels
  int imcu_rows_ = 0;
  int next_imcu_ = 0;
  int last_imcu_ = 0;
  int rows_ = 1;                    ///< rows of MCUs in an iMCU row
  int row_ = 0;                     ///< the current one of these
  int given_ = 0;                   ///< rows of pixels given so far
  const Record* record_ = nullptr;  ///< null: the scan is decoded from its beginning
  int mcus_ = 0;                    ///< of a row
  int first_mcu_ = 0;               ///< MCUs [first, last) of each row are needed
  int last_mcu_ = 0;
  int lead_ = 0;            ///< rows to decode before the next wanted one
  std::int64_t next_ = 0;   ///< the MCU at which the scan stands
  std::int64_t sound_ = 0;  ///< intervals before this one were checked
  std::vector<std::uint8_t> memory_;
  std::size_t row_stride_ = 0;
  std::uint8_t* pixels_ = nullptr;
};

}  // namespace penstock::jpeg
