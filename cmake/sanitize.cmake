# PENSTOCK_SANITIZE=address: AddressSanitizer and UndefinedBehaviorSanitizer, with what libFuzzer needs (Clang only, so
# that tests and fuzzers are one build); =thread: ThreadSanitizer. For everything in the build, because a
# half-instrumented program reports races that are none.
set(PENSTOCK_SANITIZE "" CACHE STRING "address, thread or nothing")
set_property(CACHE PENSTOCK_SANITIZE PROPERTY STRINGS "" address thread)

# Programs with Clang's sanitizers link in a tenth of the time. GCC's take a minute for the names in a report, if lld linked
# them.
find_program(LLD NAMES ld.lld)
if(PENSTOCK_SANITIZE AND LLD AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  add_link_options(-fuse-ld=lld)
endif()

# For what parses: it tells libFuzzer which branches an input takes.
add_library(penstock_fuzzed INTERFACE)

if(PENSTOCK_SANITIZE STREQUAL address)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "PENSTOCK_SANITIZE=address is for Clang, which has libFuzzer: use the preset asan.")
  endif()
  # The checks for null take a sixth of the time to compile, and AddressSanitizer reports an access to address 0 anyway.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  target_compile_options(penstock_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
  # Vectors of 16 bytes take half of the time to compile SIMD code; those of 32 and 64 and plain C++ remain.
  add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
elseif(PENSTOCK_SANITIZE STREQUAL thread)
  # GCC warns that the sanitizer does not understand fences, of which Boost.Asio has some.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  add_link_options(-fsanitize=thread)
  # Debian's oneTBB synchronises out of the sanitizer's sight, so a correct program would seem to race.
  set(TBB_ROOT ${PROJECT_SOURCE_DIR}/build/onetbb-tsan)
  if(NOT EXISTS ${TBB_ROOT}/lib/cmake/TBB/TBBConfig.cmake)
    message(FATAL_ERROR "No instrumented oneTBB in ${TBB_ROOT}: run tools/build_tsan_tbb.sh first.")
  endif()
  set(TBB_DIR ${TBB_ROOT}/lib/cmake/TBB CACHE PATH "oneTBB built with -fsanitize=thread" FORCE)
  # Code for a target differs in registers, not in how threads share memory: one target and plain C++ say all.
  add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)")
elseif(PENSTOCK_SANITIZE)
  message(FATAL_ERROR "PENSTOCK_SANITIZE is \"${PENSTOCK_SANITIZE}\", neither \"address\" nor \"thread\".")
endif()

# penstock_unoptimized("address|thread" TARGET...): halves the time that these sanitizers take to compile targets. For code
# whose tests mostly wait, or compute little.
function(penstock_unoptimized sanitizers)
  if(PENSTOCK_SANITIZE MATCHES "^(${sanitizers})$")
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O0)
    endforeach()
  endif()
endfunction()
