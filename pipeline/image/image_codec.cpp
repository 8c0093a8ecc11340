// The public functions for the decoders' statistics and the chosen back end.
#include <penstock/image_codec.h>

#include "pipeline/image/decoders.h"
#include "pipeline/image/on_device.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/records/decoder.h"

namespace penstock {

void choose_jpeg_backend(JpegBackend backend) noexcept {
  jpeg::choose(backend);
}

std::string describe_jpeg_backend() {
  return jpeg::describe_choice();
}

std::string describe_record_decoding() {
  return jpeg::describe_record_choice();
}

DecodingCounts decoding_counts() {
  DecodingCounts counts;
  counts.images = image::decoder_stats();
  const image::JpegWork work = image::jpeg_work();
  counts.jpeg_scales = work.images;
  counts.jpeg_rows = work.rows;
  counts.jpeg_rows_spared = work.rows_spared;
  counts.timed_s = 1e-9 * static_cast<double>(work.timed_ns);
  counts.timed_pixels_s = 1e-9 * static_cast<double>(work.timed_pixels_ns);
  const jpeg::Counts by = jpeg::counts();
  counts.jpeg_own = by.own;
  for (std::size_t i = 0; i < jpeg::kForeignCount; ++i) {
    if (by.foreign[i] > 0)
      counts.jpeg_fallback.emplace_back(jpeg::name_of(static_cast<jpeg::Foreign>(i)),
                                        by.foreign[i]);
  }
  const image::DeviceCounts devices = image::device_counts();
  counts.on_device = devices.packed + devices.scans;
  for (std::size_t i = 0; i < image::kWhyHostCount; ++i) {
    if (devices.host[i] > 0)
      counts.on_host.emplace_back(image::name_of(static_cast<image::WhyHost>(i)), devices.host[i]);
  }
  const auto records = jpeg::record_counts();
  counts.jpeg_coefficients = records[0];
  counts.jpeg_indexed = records[1];
  return counts;
}

}  // namespace penstock
