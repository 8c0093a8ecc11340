# Adds the tests of `program` to ctest, which runs this script. See penstock_discover in CMakeLists.txt.
if(NOT EXISTS ${program})
  add_test(${program}_NOT_BUILT ${program}_NOT_BUILT)
  return()
endif()
set(list ${program}.tests.cmake)
if(NOT EXISTS ${list} OR NOT ${list} IS_NEWER_THAN ${program} OR NOT ${list} IS_NEWER_THAN ${CMAKE_CURRENT_LIST_FILE}
   OR NOT ${list} IS_NEWER_THAN ${CMAKE_CURRENT_LIST_DIR}/discover.awk)
  set(filter)
  if(pattern)
    set(filter --gtest_filter=${pattern})
  endif()
  execute_process(COMMAND ${program} --gtest_list_tests ${filter} --gtest_output=json:${program}.tests.json
    OUTPUT_QUIET TIMEOUT 120 COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND awk -v program=${program} -v name=${name} -v timeout=${timeout} -v indices=${indices} -v pattern=${pattern}
    -f ${CMAKE_CURRENT_LIST_DIR}/discover.awk ${program}.tests.json OUTPUT_FILE ${list} COMMAND_ERROR_IS_FATAL ANY)
endif()
include(${list})
