# The parsers under libFuzzer (preset asan, tools/fuzz.sh), and in every build over seeds and damage to them.
set(fuzz_sources ${CMAKE_CURRENT_SOURCE_DIR}/fuzz)
add_library(penstock_fuzz_targets OBJECT ${fuzz_sources}/targets.cpp ${fuzz_sources}/support.cpp
  ${fuzz_sources}/containers.cpp ${fuzz_sources}/arrays.cpp ${fuzz_sources}/images.cpp ${fuzz_sources}/packed.cpp ${fuzz_sources}/saved.cpp
  ${fuzz_sources}/settings.cpp ${fuzz_sources}/trained.cpp ${PROJECT_SOURCE_DIR}/towers/safetensors.cpp)
target_include_directories(penstock_fuzz_targets PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(penstock_fuzz_targets PRIVATE penstock_private penstock_fuzzed penstock JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::HWY)

if(TARGET penstock_tools_graph)
  penstock_test(fuzz/corpora)
  target_link_libraries(fuzz_corpora_test PRIVATE penstock_fuzz_targets test_numbers penstock_tools_graph penstock JPEG::JPEG PNG::PNG
    ZLIB::ZLIB)
endif()
if(PENSTOCK_SANITIZE STREQUAL address)
  add_executable(fuzz fuzz/main.cpp)
  target_include_directories(fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(fuzz PRIVATE penstock_private penstock_fuzz_targets test_numbers penstock_tools_graph penstock JPEG::JPEG PNG::PNG
    ZLIB::ZLIB TBB::tbb)
  target_link_options(fuzz PRIVATE -fsanitize=fuzzer)
endif()
