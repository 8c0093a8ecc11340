# What the house promises about itself: layers, sanitizers, the installed package.
set(house ${CMAKE_CURRENT_SOURCE_DIR}/house)

add_test(NAME house/layers COMMAND ${PROJECT_SOURCE_DIR}/tools/check_layers.sh)
add_test(NAME house/layers_refused COMMAND ${house}/check_layers_test.sh ${PROJECT_SOURCE_DIR}/tools/check_layers.sh)
set_tests_properties(house/layers house/layers_refused PROPERTIES TIMEOUT ${test_timeout})

if(PENSTOCK_SANITIZE STREQUAL thread)
  add_executable(house_race house/race.cpp)
  target_link_libraries(house_race PRIVATE penstock_private TBB::tbb Threads::Threads)
  target_include_directories(house_race PRIVATE ${PROJECT_SOURCE_DIR})
  add_test(NAME house/tsan_is_silent COMMAND house_race)
  add_test(NAME house/tsan_finds_a_race COMMAND house_race planted)
  set_tests_properties(house/tsan_is_silent house/tsan_finds_a_race PROPERTIES TIMEOUT ${test_timeout})
  set_tests_properties(house/tsan_finds_a_race PROPERTIES PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
endif()

if(PENSTOCK_BUILD_TOOLS AND NOT PENSTOCK_SANITIZE)
  add_test(NAME house/installed COMMAND ${house}/install_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
    ${CMAKE_CXX_COMPILER})
  set_tests_properties(house/installed PROPERTIES TIMEOUT 600)
endif()
