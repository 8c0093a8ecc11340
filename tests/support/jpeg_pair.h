// Our JPEG decoder compared with libjpeg-turbo's, which is right by definition.
#pragma once

#include <memory>
#include <numeric>
#include <string>

#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/lanes.h"
#include "pipeline/jpeg/turbo/turbo.h"
#include "tests/support/decoding.h"

namespace penstock::test {

class JpegPair {
 public:
  /// Returns an empty text if both decode a file equally, region by region: pixels, verdicts and
  /// messages. `own`: our decoder must not have left the file to the library.
  std::string difference(std::span<const std::byte> bytes, const DecodePlan& plan, bool own,
                         const DecodeOptions& options = {}) {
    const auto choose = [&](const ImageInfo&) { return plan; };
    return compare(bytes, choose, own, options);
  }
  std::string difference(std::span<const std::byte> bytes, const Keeper::Plan& plan, bool own,
                         const DecodeOptions& options = {}) {
    return compare(bytes, plan, own, options);
  }
  std::string difference_of_all(std::span<const std::byte> bytes, bool own,
                                const DecodeOptions& options = {}) {
    return compare(bytes, all, own, options);
  }

 private:
  std::string compare(std::span<const std::byte> bytes, const Keeper::Plan& plan, bool own,
                      const DecodeOptions& options) {
    const DecodeOutcome theirs = decode(*library_, bytes, plan, options);
    const std::string difference = compare(*in_turns_, theirs, bytes, plan, own, options);
    if (!difference.empty() || !jpeg::Lanes::supported()) return difference;
    const std::string other = compare(*in_lanes_, theirs, bytes, plan, own, options);
    return other.empty() ? other : other + " (in lanes)";
  }

  static std::string compare(image::Decoder& decoder, const DecodeOutcome& theirs,
                             std::span<const std::byte> bytes, const Keeper::Plan& plan, bool own,
                             const DecodeOptions& options) {
    const std::uint64_t before = jpeg::counts().own;
    const DecodeOutcome ours = decode(decoder, bytes, plan, options);
    const bool did_it = jpeg::counts().own > before;
    if (ours.status.ok() != theirs.status.ok()) {
      return (theirs.status.ok() ? "refused: " + std::string(ours.status.error().what())
                                 : "accepted: " + std::string(theirs.status.error().what())) +
             (did_it ? " (own)" : " (library)");
    }
    if (!ours.status.ok()) {
      if (std::string(ours.status.error().what()) != theirs.status.error().what())
        return std::string(ours.status.error().what()) + " instead of " +
               theirs.status.error().what();
      return {};
    }
    if (ours.pixels.height != theirs.pixels.height || ours.pixels.width != theirs.pixels.width)
      return "another size: " + std::to_string(ours.pixels.height) + "x" +
             std::to_string(ours.pixels.width) + " instead of " +
             std::to_string(theirs.pixels.height) + "x" + std::to_string(theirs.pixels.width) +
             (did_it ? " (own)" : " (library)");
    if (ours.pixels.values != theirs.pixels.values)
      return test::difference(theirs.pixels, ours.pixels,
                              {0, 0, theirs.pixels.height, theirs.pixels.width}) +
             (did_it ? " (own)" : " (library)");
    if (own && !did_it) return "left to the library";
    return {};
  }

  std::unique_ptr<image::Decoder> in_turns_ = jpeg::make_decoder();
  std::unique_ptr<image::Decoder> in_lanes_ = jpeg::make_decoder(0);
  std::unique_ptr<image::Decoder> library_ = image::make_jpeg_decoder();
};

}  // namespace penstock::test
