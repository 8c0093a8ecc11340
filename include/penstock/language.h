// Refuses a compiler that would fail at every header after this one.
#pragma once

#if !defined(__cplusplus) || \
    (__cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L))
#error Penstock needs C++20: compile with -std=c++20, by GCC 12, Clang 14 or later (C has penstock/c.h)
// A missing file ends the compilation. Otherwise hundreds of errors would follow.
#include <no C++20, see above>
#endif
