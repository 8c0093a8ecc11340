// Combines neighbouring image stages into one fused chain.
#pragma once

#include <optional>
#include <string>

#include <penstock/image.h>
#include <penstock/spec.h>

#include "pipelines/settings.h"

namespace penstock::tool {

/// A sequence of image stages as ImageOps. image_kinds.cpp defines how each kind of stage extends
/// it. Not synchronised.
struct ImageChain {
  /// Returns the chain so far. `input` describes the elements before the chain. A chain that does
  /// not begin with a decode stage decodes the image if it is still encoded.
  ImageOps& ops(const Spec& input);
  /// Returns the chain, if there is one; the next stage then starts another. Throws Error if the
  /// chain should run on a device and can't.
  std::optional<ImageOps> take();

  std::optional<ImageOps> begun;
  bool on_device = false;
  std::optional<Extent> resized;  ///< size of the last resize, for a centre crop without one
};

/// Returns the component that holds the image: "image", or else the one of a tar member with the
/// extension jpg, jpeg or png.
std::string image_component(const Spec& spec);

}  // namespace penstock::tool
