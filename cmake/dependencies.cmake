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

# Of the trainer alone, not of the library.
if(PENSTOCK_BUILD_TOOLS OR PENSTOCK_BUILD_TESTS)
  find_library(PENSTOCK_DNNL dnnl REQUIRED)
  find_library(PENSTOCK_GOMP NAMES gomp libgomp.so.1 REQUIRED)
endif()
