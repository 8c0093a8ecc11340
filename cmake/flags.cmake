# Flags for Penstock's own files; users of the library do not inherit them.
include(CheckPIESupported)
check_pie_supported()

option(PENSTOCK_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(PENSTOCK_HARDEN "Harden release builds against memory errors in hostile input" ON)

add_library(penstock_private INTERFACE)
target_compile_options(penstock_private INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  # The same sum on every machine: no fused multiply-add unless it is written.
  -ffp-contract=off
  # __FILE__ is the same in every checkout, so that what a compiler's cache has of one serves all.
  $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>
  $<$<COMPILE_LANGUAGE:CXX>:-Wpedantic>  # nvcc's generated code is full of line directives
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>  # GCC 12 reports "text" + std::string (bug 105651)
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety -Wno-unknown-warning-option>
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>)

# As part of another project a layer is one file, of which GCC would collect little garbage in a tenth of the time: until
# it has a gigabyte it collects none.
if(NOT PROJECT_IS_TOP_LEVEL)
  target_compile_options(penstock_private INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)
endif()

# A thread that does slow work while it holds a mutex ends the process (include/penstock/internal/slow_work.h).
set(lock_checks OFF)
if(CMAKE_BUILD_TYPE STREQUAL Debug OR PENSTOCK_SANITIZE)
  set(lock_checks ON)
endif()
option(PENSTOCK_LOCK_CHECKS "End the process at slow work under a mutex" ${lock_checks})
if(PENSTOCK_LOCK_CHECKS)
  add_compile_definitions(PENSTOCK_LOCK_CHECKS)
endif()

if(PENSTOCK_HARDEN AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT PENSTOCK_SANITIZE)
  target_compile_definitions(penstock_private INTERFACE _FORTIFY_SOURCE=3 _GLIBCXX_ASSERTIONS)
  target_compile_options(penstock_private INTERFACE -fstack-protector-strong -fstack-clash-protection
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection>)
  target_link_options(penstock_private INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# A shared library shows what exports.map says. The linker hides the rest, not the compiler, so that objects are the same
# for static and shared libraries.
function(penstock_hide_symbols library)
  if(BUILD_SHARED_LIBS)
    target_link_options(${library} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
    set_property(TARGET ${library} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  endif()
endfunction()
