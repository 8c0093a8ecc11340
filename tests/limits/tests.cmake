# The program under limits on threads and memory. Not under sanitizers, which want terabytes of addresses.
if(TARGET penstock_tool AND NOT PENSTOCK_SANITIZE)
  add_library(limits_few_threads MODULE ${CMAKE_CURRENT_SOURCE_DIR}/limits/few_threads.cpp)
  target_link_libraries(limits_few_threads PRIVATE ${CMAKE_DL_LIBS})
  penstock_test(limits/limits core)
  target_compile_definitions(limits_limits_test PRIVATE PENSTOCK_PROGRAM="$<TARGET_FILE:penstock_tool>"
    PENSTOCK_FEW_THREADS="$<TARGET_FILE:limits_few_threads>")
  add_dependencies(limits_limits_test penstock_tool limits_few_threads)
endif()
