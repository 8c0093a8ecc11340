# The parsers under libFuzzer (tools/fuzz.sh), and over seeds and damage to them. With AddressSanitizer alone: the targets
# compile parts of the library again, and without it they see less.
if(NOT PENSTOCK_SANITIZE STREQUAL address)
  return()
endif()
set(fuzz_sources ${CMAKE_CURRENT_SOURCE_DIR}/fuzz)
add_library(penstock_fuzz_targets OBJECT ${fuzz_sources}/targets.cpp ${fuzz_sources}/support.cpp
  ${fuzz_sources}/containers.cpp ${fuzz_sources}/arrays.cpp ${fuzz_sources}/images.cpp ${fuzz_sources}/packed.cpp ${fuzz_sources}/saved.cpp
  ${fuzz_sources}/answers.cpp ${fuzz_sources}/settings.cpp ${fuzz_sources}/trained.cpp ${fuzz_sources}/workers.cpp ${fuzz_sources}/local.cpp ${PROJECT_SOURCE_DIR}/towers/checkpoint/safetensors.cpp)
target_include_directories(penstock_fuzz_targets PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(penstock_fuzz_targets PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
target_link_libraries(penstock_fuzz_targets PRIVATE penstock_private penstock_fuzzed penstock JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::HWY)
set(fuzz_wire)
if(TARGET penstock_cluster_wire)
  set(fuzz_wire penstock_cluster_wire)
  set(cluster ${PROJECT_SOURCE_DIR}/cluster)
  target_sources(penstock_fuzz_targets PRIVATE ${fuzz_sources}/wire.cpp ${fuzz_sources}/parameters.cpp ${cluster}/lobby.cpp ${cluster}/net/state.cpp
    ${cluster}/net/etcd_members.cpp ${cluster}/net/parameter_answers.cpp ${cluster}/net/parameter_reply.cpp
    ${cluster}/net/parameter_wire.cpp ${cluster}/net/blocks.cpp ${cluster}/net/bulk.cpp)
  target_link_libraries(penstock_fuzz_targets PRIVATE ${fuzz_wire})
else()
  target_sources(penstock_fuzz_targets PRIVATE ${fuzz_sources}/no_wire.cpp)
endif()
target_sources(penstock_fuzz_targets PRIVATE ${fuzz_sources}/device_jpegs.cpp)

if(TARGET penstock_pipelines)
  penstock_test(fuzz/corpora)
  target_link_libraries(fuzz_corpora_test PRIVATE penstock_fuzz_targets ${fuzz_wire} test_numbers penstock_pipelines penstock JPEG::JPEG PNG::PNG
    ZLIB::ZLIB)
endif()
add_executable(fuzz fuzz/main.cpp)
target_include_directories(fuzz PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(fuzz PRIVATE penstock_private penstock_fuzz_targets ${fuzz_wire} test_numbers penstock_pipelines penstock JPEG::JPEG PNG::PNG
  ZLIB::ZLIB TBB::tbb)
target_link_options(fuzz PRIVATE -fsanitize=fuzzer)
