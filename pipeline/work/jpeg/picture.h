// The region of one image, from its scan to rows of pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/work/image/codec.h"
#include "pipeline/work/jpeg/header.h"
#include "pipeline/work/jpeg/rows.h"
#include "pipeline/work/jpeg/scan.h"
#include "pipeline/work/jpeg/strip_plan.h"

namespace penstock::jpeg {

struct Record;

/// A component's samples around the row of MCUs that was decoded last: the rows that are still
/// needed of those above, then its own.
struct Strip : StripPlan {
  bool needed = false;
  int vertical = 1;  ///< blocks of an iMCU row
  int top = 0;       ///< the row that is kept first
  int kept = 0;      ///< rows that are kept
  std::size_t stride = 0;
  std::uint8_t* samples = nullptr;
  std::uint8_t* pixels = nullptr;  ///< an upsampled row
};

/// Decodes regions. Keeps its memory from one to the next, if that is little. Not synchronised.
class Picture {
 public:
  Picture() = default;
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  /// Prepares for a file whose header was read and whose pixels will have `channels`, 1 or 3.
  /// Returns why it can't be done, or none.
  Foreign begin(const Header& header, std::span<const std::byte> file, int channels);
  /// The same for an image whose blocks come from elsewhere than its scan.
  Foreign begin(const Header& header, int channels);
  /// Chooses what to decode: `plan` is within the image. Returns why it can't be done, or none.
  /// Asks `sink` for room.
  Foreign choose(const image::DecodePlan& plan, std::uint64_t max_bytes, image::PixelSink& sink);
  /// Behind `choose`, of a file in an indexed record, which must outlive the image: only the
  /// intervals that the region touches will be decoded. Throws Error{data_loss} if they do not fit
  /// the file.
  void use_intervals(const Record& record);
  image::Size shrunk() const noexcept { return shrunk_; }
  /// Begins the next row of MCUs: `scan` is to be decoded to its end. Throws Error{data_loss} if it
  /// lies in damaged parts of a record.
  void begin_row();
  Scan& scan() noexcept { return scan_; }
  /// Behind that row: gives pixels to the sink, if there are any now.
  enum class Progress {
    more,
    done,
    left  ///< to libjpeg-turbo, as are the rows that were not given yet
  };
  Progress end_row(image::PixelSink& sink);

  /// In place of begin_row and end_row where blocks come from elsewhere. Between the two, if the
  /// row is wanted, the caller transforms the `vertical` rows of blocks that each component with a
  /// `side` has in iMCU row `row()` to its plane's target.
  void open_row();
  bool wanted() const noexcept;
  int row() const noexcept { return next_imcu_; }
  /// Gives pixels to the sink, if there are any now: more or done.
  Progress close_row(image::PixelSink& sink);
  int given() const noexcept { return given_; }

 private:
  /// Rows of pixels that are given at once.
  static constexpr int kRows = 8;
  /// In front of a row of samples, and behind it.
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
  bool context_ = false;  ///< pixels of one row group depend on the next
  int side_ = 8;          ///< of a block of the least shrunken component
  int imcu_height_ = 8;   ///< pixels
  int imcu_rows_ = 0;
  int next_imcu_ = 0;
  int last_imcu_ = 0;
  int rows_ = 1;                    ///< of MCUs in an iMCU row
  int row_ = 0;                     ///< of these
  int given_ = 0;                   ///< rows
  const Record* record_ = nullptr;  ///< null: the scan is decoded from its beginning
  int mcus_ = 0;                    ///< of a row
  int first_mcu_ = 0;               ///< MCUs [first, last) of each row are needed
  int last_mcu_ = 0;
  int lead_ = 0;            ///< rows to decode before the one that is wanted
  std::int64_t next_ = 0;   ///< the MCU where the scan stands
  std::int64_t sound_ = 0;  ///< intervals in front of this one need no more checks
  std::vector<std::uint8_t> memory_;
  std::size_t row_stride_ = 0;
  std::uint8_t* pixels_ = nullptr;
};

}  // namespace penstock::jpeg
