# What the house promises about itself: layers, sanitizers, the installed package.
set(house ${CMAKE_CURRENT_SOURCE_DIR}/house)

add_test(NAME house/layers COMMAND ${PROJECT_SOURCE_DIR}/tools/check_layers.sh)
add_test(NAME house/layers_refused COMMAND ${house}/check_layers_test.sh ${PROJECT_SOURCE_DIR}/tools/check_layers.sh)
add_test(NAME house/links COMMAND ${PROJECT_SOURCE_DIR}/tools/check_links.sh ${PROJECT_BINARY_DIR}/layers.txt)
add_test(NAME house/links_refused COMMAND ${house}/check_links_test.sh ${PROJECT_SOURCE_DIR}/tools/check_links.sh ${CMAKE_CXX_COMPILER})
set_tests_properties(house/layers house/layers_refused house/links house/links_refused PROPERTIES TIMEOUT ${test_timeout})

add_test(NAME house/gpu_check COMMAND ${house}/gpu_check_test.py ${PROJECT_SOURCE_DIR})
add_test(NAME house/cuda_parts COMMAND ${house}/cuda_parts_test.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(house/gpu_check house/cuda_parts PROPERTIES TIMEOUT 600)
set_tests_properties(house/gpu_check PROPERTIES LABELS reliability)

if(NOT PENSTOCK_SANITIZE)
  set(libraries $<TARGET_FILE:penstock>)
  if(TARGET penstock_pipelines)
    list(APPEND libraries $<TARGET_FILE:penstock_pipelines>)
  endif()
  if(TARGET penstock_towers)
    list(APPEND libraries $<TARGET_FILE:penstock_towers> $<TARGET_FILE:penstock_cluster>)
  endif()
  add_test(NAME house/symbols COMMAND ${house}/symbols_test.sh ${libraries})
  add_test(NAME house/misuse COMMAND ${house}/misuse_test.sh ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})
  add_test(NAME house/discover COMMAND ${house}/discover_test.sh ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR})
  set_tests_properties(house/symbols house/misuse house/discover PROPERTIES TIMEOUT 600)
endif()

if(PENSTOCK_SANITIZE STREQUAL thread)
  add_executable(house_race house/race.cpp)
  target_link_libraries(house_race PRIVATE penstock_private TBB::tbb Threads::Threads)
  target_include_directories(house_race PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  add_test(NAME house/tsan_is_silent COMMAND house_race)
  add_test(NAME house/tsan_finds_a_race COMMAND house_race planted)
  set_tests_properties(house/tsan_is_silent house/tsan_finds_a_race PROPERTIES TIMEOUT ${test_timeout})
  set_tests_properties(house/tsan_finds_a_race PROPERTIES PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
endif()

# What a machine without a GPU can show of it with programs that are not made up, on a host device.
if(PENSTOCK_BUILD_TOOLS AND PENSTOCK_BUILD_BENCH AND NOT PENSTOCK_SANITIZE)
  add_test(NAME house/gpu_check_rehearsal COMMAND ${CMAKE_COMMAND} -E env OUT=${PROJECT_BINARY_DIR}/gpu_check
    ${PROJECT_SOURCE_DIR}/tools/gpu_check.py rehearse ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(house/gpu_check_rehearsal PROPERTIES LABELS reliability TIMEOUT 600)
endif()

if(PENSTOCK_BUILD_TOOLS AND NOT PENSTOCK_SANITIZE)
  add_test(NAME house/installed COMMAND ${house}/install_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  add_test(NAME house/installed_shared COMMAND ${house}/install_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} shared)
  set_tests_properties(house/installed PROPERTIES TIMEOUT 600)
  set_tests_properties(house/installed_shared PROPERTIES LABELS reliability TIMEOUT 1200)  # builds all libraries again
  add_test(NAME house/subproject COMMAND ${house}/subproject_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(house/subproject PROPERTIES LABELS reliability TIMEOUT 400)
endif()
