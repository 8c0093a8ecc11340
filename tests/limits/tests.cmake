# The program under limits on threads and memory. Not under sanitizers, which want terabytes of addresses.
if(TARGET penstock_tool AND NOT PENSTOCK_SANITIZE)
  add_library(limits_few_threads MODULE EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/limits/few_threads.cpp)
  target_link_libraries(limits_few_threads PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(limits_few_threads PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  penstock_program_test(limits/limits SLOW "*")
  add_dependencies(limits_limits_test limits_few_threads)
endif()
