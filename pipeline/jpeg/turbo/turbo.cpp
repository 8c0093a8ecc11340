#include "pipeline/jpeg/turbo/turbo.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

// After <cstdio>, which they need.
#include <jpeglib.h>
// After <jpeglib.h>, which it needs.
#include <jerror.h>

#include "pipeline/codec/color.h"
#include "pipeline/codec/exif.h"
#include "pipeline/jpeg/padding.h"
#include "pipeline/jpeg/turbo/memory.h"
#include "pipeline/jpeg/turbo/tables.h"
#include "pipeline/jpeg/turbo/warnings.h"

namespace penstock::image {

namespace {

constexpr int kBlockRows = 8;
/// Tables that the library allocated and we can't reuse; their memory comes back with the session's
/// end.
constexpr int kMostLostTables = 64;
/// A narrower crop could change which upsampler the library picks.
constexpr int kLeastCropWidth = 32;

enum class Failure { none, data, scans, memory_limit, memory };

/// The library's state and ours around it. Everything that may longjmp lies in the functions below
/// that take a Session: they are C in spirit and own nothing that would need a destructor.
struct Session {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf failed;
  Failure failure = Failure::none;
  char message[JMSG_LENGTH_MAX] = {};
  char warning[JMSG_LENGTH_MAX] = {};  // the first one that was no error
  bool strict = true;
  bool strict_images = false;
  const unsigned char* file = nullptr;
  int max_scans = 0;
};

Session& session_of(j_common_ptr info) {
  return *static_cast<Session*>(info->client_data);
}

[[noreturn]] void fail(Session& session, Failure failure) {
  session.failure = failure;
  std::longjmp(session.failed, 1);
}

/// static, since in C an unnamed namespace hides nothing.
extern "C" {

static void on_error(j_common_ptr info) {
  Session& session = session_of(info);
  (*info->err->format_message)(info, session.message);
  switch (info->err->msg_code) {
    case JERR_NO_BACKING_STORE:
      fail(session, Failure::memory_limit);
    case JERR_OUT_OF_MEMORY:
      fail(session, Failure::memory);
    default:
      fail(session, Failure::data);
  }
}

static void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  Session& session = session_of(info);
  const bool harmless = session.strict && !session.strict_images &&
                        is_harmless(*reinterpret_cast<j_decompress_ptr>(info), session.file);
  if (session.strict && !harmless) on_error(info);
  if (info->err->num_warnings++ == 0) (*info->err->format_message)(info, session.warning);
}

static void on_output(j_common_ptr) {}

static void on_progress(j_common_ptr info) {
  Session& session = session_of(info);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > session.max_scans) {
    fail(session, Failure::scans);
  }
}

}  // extern "C"

bool create(Session& session) {
  session.info.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = on_error;
  session.errors.emit_message = on_message;
  session.errors.output_message = on_output;
  session.info.client_data = &session;
  if (setjmp(session.failed) != 0) {
    jpeg_destroy_decompress(&session.info);  // what was made of it
    return false;
  }
  jpeg_create_decompress(&session.info);
  session.progress = {};
  session.progress.progress_monitor = on_progress;
  session.info.progress = &session.progress;
  return true;
}

bool read_header(Session& session, const unsigned char* data, std::size_t size) {
  if (setjmp(session.failed) != 0) return false;
  session.errors.num_warnings = 0;
  session.file = data;
  jpeg_mem_src(&session.info, data, static_cast<unsigned long>(size));
  jpeg_read_header(&session.info, TRUE);
  return true;
}

bool start(Session& session) {
  if (setjmp(session.failed) != 0) return false;
  jpeg_start_decompress(&session.info);
  return true;
}

/// A component's samples must be doubled sideways, which looks at the neighbours.
bool upsamples_columns(const jpeg_decompress_struct& info) {
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    if (component.component_needed == TRUE && component.h_samp_factor * component.DCT_scaled_size !=
                                                  info.max_h_samp_factor * info.min_DCT_scaled_size)
      return true;
  }
  return false;
}

/// The library will smooth across blocks because a progressive file left coefficients out; then
/// pixels depend on blocks outside of the region.
bool smooths_blocks(const jpeg_decompress_struct& info) {
  if (info.progressive_mode == FALSE || info.coef_bits == nullptr) return false;
  for (int i = 0; i < info.num_components; ++i) {
    for (int k = 1; k < 10; ++k) {
      if (info.coef_bits[i][k] != 0) return true;
    }
  }
  return false;
}

struct Columns {
  JDIMENSION first = 0;
  JDIMENSION count = 0;
};

bool crop(Session& session, Columns* columns) {
  if (setjmp(session.failed) != 0) return false;
  jpeg_decompress_struct& info = session.info;
  jpeg_crop_scanline(&info, &columns->first, &columns->count);
  // libjpeg-turbo below 3.0 forgets here that shrinking may leave a component more columns than its
  // sampling factor says, and then upsamples only a part of them.
  for (int i = 0; i < info.num_components; ++i) {
    jpeg_component_info& component = info.comp_info[i];
    const long long samples = 1LL * component.h_samp_factor * component.DCT_scaled_size;
    const long long pixels = 1LL * info.max_h_samp_factor * info.min_DCT_scaled_size;
    component.downsampled_width =
        static_cast<JDIMENSION>((info.output_width * samples + pixels - 1) / pixels);
  }
  return true;
}

bool skip_rows(Session& session, JDIMENSION count) {
  if (setjmp(session.failed) != 0) return false;
  jpeg_skip_scanlines(&session.info, count);
  return true;
}

bool read_rows(Session& session, JSAMPROW* rows, int count) {
  if (setjmp(session.failed) != 0) return false;
  for (int done = 0; done < count;) {
    const JDIMENSION left = static_cast<JDIMENSION>(count - done);
    const JDIMENSION got = jpeg_read_scanlines(&session.info, rows + done, left);
    if (got == 0) {
      std::strcpy(session.message, "fewer rows than the header says");
      fail(session, Failure::data);
    }
    done += static_cast<int>(got);
  }
  return true;
}

bool finish(Session& session) {
  if (setjmp(session.failed) != 0) return false;
  jpeg_finish_decompress(&session.info);
  return true;
}

Error error_of(const Session& session) {
  switch (session.failure) {
    case Failure::scans:
      return {ErrorCode::out_of_range,
              "JPEG: more than " + std::to_string(session.max_scans) + " scans (max_scans)"};
    case Failure::memory_limit:
      return {ErrorCode::out_of_range, "JPEG: needs more than " +
                                           std::to_string(session.info.mem->max_memory_to_use) +
                                           " bytes of working memory (max_codec_bytes)"};
    case Failure::memory:
      return {ErrorCode::resource_exhausted, std::string("JPEG: ") + session.message};
    default:
      return {ErrorCode::data_loss, std::string("JPEG: ") + session.message};
  }
}

class JpegDecoder final : public Decoder {
 public:
  JpegDecoder() {
    if (!create(session_)) throw error_of(session_);
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() override { jpeg_destroy_decompress(&session_.info); }

  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept override {
    for (DecodeJob& job : jobs) {
      try {
        decode_one(job, options);
        if (session_.errors.num_warnings > 0) job.warning = session_.warning;
        job.status = Status();
      } catch (...) {
        job.status = status_from_current_exception();
      }
      jpeg_abort_decompress(&session_.info);
      if (rows_.size() > kUnaskedBytes) rows_ = std::vector<std::uint8_t>();
      if (converted_.size() > kUnaskedBytes) converted_ = std::vector<std::uint8_t>();
    }
  }

 private:
  static void require(bool ok, const Session& session) {
    if (!ok) throw error_of(session);
  }

  void decode_one(DecodeJob& job, const DecodeOptions& options) {
    jpeg_decompress_struct& info = session_.info;
    if (tables_.lost() > kMostLostTables) {
      jpeg_destroy_decompress(&info);
      tables_ = {};
    }
    if (info.mem == nullptr) require(create(session_), session_);  // also if that failed before
    tables_.mark(info);
    session_.strict = options.strict;
    session_.strict_images = options.strict_images;
    session_.max_scans = options.limits.max_scans;
    constexpr std::uint64_t kMost = std::numeric_limits<long>::max();
    info.mem->max_memory_to_use =
        static_cast<long>(std::min<std::uint64_t>(options.limits.max_codec_bytes, kMost));
    const auto* data = reinterpret_cast<const unsigned char*>(job.bytes.data());
    const bool good = read_header(session_, data, job.bytes.size());
    tables_.drop_marked(info);
    require(good, session_);
    check_pixels(info.image_width, info.image_height, options.limits);
    choose_color_space(options.channels);

    ImageInfo image;
    image.size = {static_cast<int>(info.image_height), static_cast<int>(info.image_width)};
    image.channels = info.out_color_space == JCS_GRAYSCALE ? 1 : options.channels;
    if (options.orient) image.orientation = jpeg_orientation(job.bytes);
    const DecodePlan plan = job.sink->plan(image);
    if (plan.region.empty()) return;

    // What is above the limit the library will refuse.
    const WorkingBytes bytes = working_bytes(info, kBlockRows);
    if (bytes.coefficients + bytes.rows > kUnaskedBytes &&
        bytes.coefficients <= options.limits.max_codec_bytes)
      job.sink->make_room(bytes.coefficients + bytes.rows);
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(plan.denominator);
    require(start(session_), session_);
    if (options.strict && session_.errors.num_warnings > 0 &&
        jpeg_has_multiple_scans(&info) == TRUE && !is_complete(info))
      throw lost();
    const long in_header = session_.errors.num_warnings;
    const Size shrunk{static_cast<int>(info.output_height), static_cast<int>(info.output_width)};
    const bool whole = check_region(plan.region, shrunk);
    job.denominator = plan.denominator;
    job.rows = plan.region.height;
    job.rows_spared = shrunk.height - plan.region.height;
    deliver(plan.region, options.channels, *job.sink);
    if (whole) require(finish(session_), session_);
    if (options.strict && session_.errors.num_warnings > in_header && !jpeg::is_padded(job.bytes))
      throw lost();
  }

  /// The error of an image whose warnings were not harmless after all.
  Error lost() const { return {ErrorCode::data_loss, std::string("JPEG: ") + session_.warning}; }

  void choose_color_space(int channels) {
    jpeg_decompress_struct& info = session_.info;
    switch (info.jpeg_color_space) {
      case JCS_GRAYSCALE:
        info.out_color_space = JCS_GRAYSCALE;
        return;
      case JCS_YCbCr:
      case JCS_RGB:
        info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        return;
      case JCS_CMYK:
      case JCS_YCCK:
        info.out_color_space = JCS_CMYK;
        return;
      default:
        throw Error(ErrorCode::data_loss, "JPEG: " + std::to_string(info.num_components) +
                                              " components of an unknown color space");
    }
  }

  void deliver(const Rect& region, int channels, PixelSink& sink) {
    jpeg_decompress_struct& info = session_.info;
    const auto left = static_cast<JDIMENSION>(region.left);
    const auto top = static_cast<JDIMENSION>(region.top);
    const bool whole = smooths_blocks(info);
    const Columns columns = whole ? Columns{0, info.output_width} : crop_to(region);
    const auto components = static_cast<std::size_t>(info.output_components);
    const std::size_t stride = (columns.count * components + kRowPadding + 63) / 64 * 64;
    // The library writes rows that are aligned to its vectors past the cache, where the resize
    // would have to fetch them from memory again.
    constexpr std::size_t kAlignment = 64;
    constexpr std::size_t kMisalignment = 8;
    if (rows_.size() < stride * kBlockRows + 2 * kAlignment) {
      rows_.resize(stride * kBlockRows + 2 * kAlignment);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(rows_.data());
    std::uint8_t* base = rows_.data() + (kAlignment - address % kAlignment) + kMisalignment;
    JSAMPROW rows[kBlockRows];
    for (std::size_t i = 0; i < kBlockRows; ++i) rows[i] = base + i * stride;

    if (whole) {
      for (JDIMENSION y = 0; y < top; ++y) require(read_rows(session_, rows, 1), session_);
    } else if (top > 0) {
      require(skip_rows(session_, top), session_);
    }
    const std::uint8_t* first = base + (left - columns.first) * components;
    for (int y = 0; y < region.height; y += kBlockRows) {
      const int count = std::min(kBlockRows, region.height - y);
      require(read_rows(session_, rows, count), session_);
      if (components == 4) {
        const auto width = static_cast<std::size_t>(region.width);
        const std::size_t converted = convert_cmyk(first, stride, width, channels, count);
        sink.rows(converted_.data(), converted, count);
      } else {
        sink.rows(first, stride, count);
      }
    }
  }

  /// Restricts decoding to the columns of the region and those that its edges' upsampling looks at.
  Columns crop_to(const Rect& region) {
    const jpeg_decompress_struct& info = session_.info;
    const int width = static_cast<int>(info.output_width);
    const int margin = upsamples_columns(info) ? 1 : 0;
    const int left = std::max(region.left - margin, 0);
    const int right =
        std::min(region.left + std::max(region.width + margin, kLeastCropWidth), width);
    const int first = std::max(std::min(left, right - kLeastCropWidth), 0);
    Columns columns{static_cast<JDIMENSION>(first), static_cast<JDIMENSION>(right - first)};
    if (columns.count < info.output_width) require(crop(session_, &columns), session_);
    return columns;
  }

  /// Returns the stride of the converted rows.
  std::size_t convert_cmyk(const std::uint8_t* rows, std::size_t stride, std::size_t width,
                           int channels, int count) {
    const std::size_t converted = width * 3 + kRowPadding;
    if (converted_.size() < converted * kBlockRows) converted_.resize(converted * kBlockRows);
    for (int y = 0; y < count; ++y) {
      std::uint8_t* out = converted_.data() + static_cast<std::size_t>(y) * converted;
      inverted_cmyk_to_rgb(rows + static_cast<std::size_t>(y) * stride, out, width);
      if (channels == 1) rgb_to_gray(out, out, width);
    }
    return converted;
  }

  Session session_;
  Tables tables_;
  std::vector<std::uint8_t> rows_;
  std::vector<std::uint8_t> converted_;
};

}  // namespace

std::unique_ptr<Decoder> make_jpeg_decoder() {
  return std::make_unique<JpegDecoder>();
}

}  // namespace penstock::image
