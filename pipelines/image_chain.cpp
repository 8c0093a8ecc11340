#include "pipelines/image_chain.h"

#include <utility>

namespace penstock::tool {
namespace {

bool encoded(const Spec& spec, const std::string& component) {
  const int at = spec.find(component);
  return at < 0 || spec[static_cast<std::size_t>(at)].dtype == DType::bytes;
}

}  // namespace

std::string image_component(const Spec& spec) {
  for (const char* name : {"image", "jpg", "jpeg", "png"})
    if (spec.find(name) >= 0) return name;
  return "image";
}

ImageOps& ImageChain::ops(const Spec& input) {
  if (!begun) {
    const std::string component = image_component(input);
    begun = encoded(input, component) ? decode_image(component) : image_ops(component);
  }
  return *begun;
}

std::optional<ImageOps> ImageChain::take() {
  resized.reset();
  std::optional<ImageOps> ops = std::exchange(begun, std::nullopt);
  if (ops && std::exchange(on_device, false)) return ops->on_device();
  return ops;
}

}  // namespace penstock::tool
