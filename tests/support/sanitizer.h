// The sanitizer that the tests run under.
#pragma once

namespace penstock::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_ADDRESS_SANITIZER 1
#endif
#endif

/// AddressSanitizer replaces the allocator, and opens files to report where something happened.
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
