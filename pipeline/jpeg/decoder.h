// A JPEG decoder of our own, faster than libjpeg-turbo and with the same pixels.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/image_codec.h>

#include "pipeline/codec/codec.h"
#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

/// Makes a decoder with the results of image::make_jpeg_decoder's, bit for bit and error for error.
/// It leaves files that it does not support, and all that look damaged, to such a decoder, if
/// necessary in the middle of an image. The result of that decoder is final.
///
/// If a call has more than `few` images, sixteen are decoded at once in the lanes of AVX-512, where
/// available. Otherwise two are decoded in turn. The decoder reads indexed records too, see
/// records/layout.h.
inline constexpr std::size_t kFewImages = 4;
std::unique_ptr<image::Decoder> make_decoder(std::size_t few = kFewImages);

using Backend = JpegBackend;

/// Chooses the back end of all decoders that the process makes from now on. Thread-safe.
void choose(Backend backend) noexcept;
/// True if the chosen back end is our own on this machine.
bool own_back_end() noexcept;
/// Describes the chosen back end and the reason: "own back end, the faster one here; …".
std::string describe_choice();
/// Makes a decoder of the chosen back end.
std::unique_ptr<image::Decoder> make_chosen_decoder();

/// The images that all threads decoded since the process started, by back end. `foreign` counts by
/// reason.
struct Counts {
  std::uint64_t own = 0;
  std::array<std::uint64_t, kForeignCount> foreign{};
};
Counts counts() noexcept;

}  // namespace penstock::jpeg
