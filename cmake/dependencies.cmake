# Everything Penstock links against. tools/setup.sh installs it; docs/dependencies.md says why.
find_package(Threads REQUIRED)
find_package(TBB 2021.8 REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBJPEG REQUIRED libjpeg)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(URING IMPORTED_TARGET liburing)
option(PENSTOCK_LZ4 "Let input workers compress what they send, where liblz4 is found" ON)
if(PENSTOCK_LZ4)
  pkg_check_modules(LZ4 IMPORTED_TARGET liblz4)
else()
  unset(LZ4_FOUND CACHE)  # of a configuration before
endif()

# Of what reads pipelines as text alone.
if(PENSTOCK_BUILD_PIPELINES)
  find_path(PENSTOCK_TOMLPLUSPLUS toml++/toml.h)
  mark_as_advanced(PENSTOCK_TOMLPLUSPLUS)
  if(NOT PENSTOCK_TOMLPLUSPLUS)
    message(FATAL_ERROR "pipelines as text need toml++: Debian's libtomlplusplus-dev; without them: PENSTOCK_BUILD_PIPELINES=OFF")
  endif()
endif()

# Of the trainer alone, not of the library.
if(PENSTOCK_BUILD_TOWERS)
  include(penstock-towers-dependencies)
  if(TARGET penstock::farmhash)
    set(penstock_towers_with_farmhash TRUE)  # so that an installed one needs it
  endif()
  if(penstock_towers_missing)
    message(FATAL_ERROR "the trainer needs ${penstock_towers_missing}: Debian's libdnnl-dev, libgomp1")
  endif()
endif()
