// Neighbouring image stages as one fused chain.
#pragma once

#include <optional>
#include <string>

#include <penstock/image.h>
#include <penstock/spec.h>

#include "tools/penstock/graph/settings.h"

namespace penstock::tool {

/// Image stages, one after the other, as ImageOps. What a kind of stage does to it stands in
/// image_kinds.cpp. Not synchronised.
struct ImageChain {
  /// The chain so far. `input` is the spec in front of it: a chain that did not begin with a decode
  /// decodes if the image is still encoded.
  ImageOps& ops(const Spec& input);
  /// The chain, if there is one; the next stage starts another. Throws Error for one that was to be
  /// left to the device and can't be.
  std::optional<ImageOps> take();

  std::optional<ImageOps> begun;
  bool on_device = false;
  std::optional<Extent> resized;  ///< by the last resize, for a centre crop without a size
};

/// "image", else that of a tar member with the extension jpg, jpeg or png.
std::string image_component(const Spec& spec);

}  // namespace penstock::tool
