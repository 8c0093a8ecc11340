#include "pipeline/codec/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/codec/simd.cpp"
#define HWY_WANT_AVX3_DL
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace penstock::image {
namespace HWY_NAMESPACE {
namespace {

bool is_avx3_dl() {
  return HWY_TARGET == HWY_AVX3_DL;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::image {

HWY_EXPORT(is_avx3_dl);

bool avx3_dl_supported() {
  return HWY_DYNAMIC_DISPATCH(is_avx3_dl)();
}

}  // namespace penstock::image
#endif  // HWY_ONCE
