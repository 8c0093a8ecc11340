// Neighbouring image stages as one fused chain.
#pragma once

#include <optional>

#include <penstock/image.h>
#include <penstock/spec.h>

#include "tools/penstock/graph/settings.h"

namespace penstock::tool {

/// Turns image stages, one after the other, into ImageOps. The chain starts with a decode if the
/// first stage is one or if the image is still encoded. The component is "image", else that of a
/// tar member with the extension jpg, jpeg or png. Not synchronised.
class ImageChain {
 public:
  /// `input` is the spec in front of the chain. Throws Error for what ImageOps refuses.
  void add(const Settings& stage, const Spec& input);
  /// The chain so far, if there is one; the next stage starts another. Throws Error for one that
  /// was to be left to the device and can't be.
  std::optional<ImageOps> take();

 private:
  using Step = void (ImageChain::*)(const Settings& stage);
  void resize(const Settings& stage);
  void center_crop(const Settings& stage);
  void random_resized_crop(const Settings& stage);
  void random_pad_crop(const Settings& stage);
  void flip(const Settings& stage);
  void color_jitter(const Settings& stage);
  void normalize(const Settings& stage);

  std::optional<ImageOps> ops_;
  bool on_device_ = false;
  std::optional<Extent> resized_;  // of the last resize, for a centre crop without a size
};

}  // namespace penstock::tool
