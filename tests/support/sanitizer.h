// Which sanitizer watches the tests.
#pragma once

namespace penstock::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_ADDRESS_SANITIZER 1
#endif
#endif

/// It has the allocator to itself, and opens files to say where something happened.
#if defined(PENSTOCK_ADDRESS_SANITIZER) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace penstock::test
