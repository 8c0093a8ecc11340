# Flags for Penstock's own files; users of the library do not inherit them.
include(CheckPIESupported)
check_pie_supported()

option(PENSTOCK_WERROR "Treat warnings as errors" ON)
option(PENSTOCK_HARDEN "Harden release builds against memory errors in hostile input" ON)

add_library(penstock_private INTERFACE)
target_compile_options(penstock_private INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  # The same sum on every machine: no fused multiply-add unless it is written.
  -ffp-contract=off
  $<$<COMPILE_LANGUAGE:CXX>:-Wpedantic>  # nvcc's generated code is full of line directives
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>  # GCC 12 reports "text" + std::string (bug 105651)
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety -Wno-unknown-warning-option>
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>)

if(PENSTOCK_HARDEN AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT PENSTOCK_SANITIZE)
  target_compile_definitions(penstock_private INTERFACE _FORTIFY_SOURCE=3 _GLIBCXX_ASSERTIONS)
  target_compile_options(penstock_private INTERFACE -fstack-protector-strong -fstack-clash-protection
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection>)
  target_link_options(penstock_private INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
