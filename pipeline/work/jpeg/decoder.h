// JPEG by a decoder of our own, faster than libjpeg-turbo and with its pixels.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/image_codec.h>

#include "pipeline/work/image/codec.h"
#include "pipeline/work/jpeg/header.h"

namespace penstock::jpeg {

/// Does what image::make_jpeg_decoder's does, bit for bit and verdict for verdict. What it does not
/// know, and whatever looks odd, it leaves to such a decoder, in the middle of an image if need be:
/// that one's word is final. Of more images than `few` at once, sixteen are decoded in the lanes of
/// AVX-512, where there is that; of others, two in turns. Takes indexed records too, see
/// records/layout.h.
inline constexpr std::size_t kFewImages = 4;
std::unique_ptr<image::Decoder> make_decoder(std::size_t few = kFewImages);

using Backend = JpegBackend;

/// For all decoders that the process makes from now on. Thread-safe.
void choose(Backend backend) noexcept;
/// True if that is our own, here.
bool own_back_end() noexcept;
/// "own back end, the faster one here; …": who was chosen, and why.
std::string describe_choice();
/// A decoder of the back end that was chosen.
std::unique_ptr<image::Decoder> make_chosen_decoder();

/// What all threads decoded since the process started, by who did it. `foreign` counts by reason.
struct Counts {
  std::uint64_t own = 0;
  std::array<std::uint64_t, kForeignCount> foreign{};
};
Counts counts() noexcept;

}  // namespace penstock::jpeg
