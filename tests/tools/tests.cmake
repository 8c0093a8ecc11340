penstock_tests(tools FILES pipeline_flags digest terminal report verdict worker_verdict verdict_table screen interrupts shards
  towers determinism LIBRARIES penstock_tools penstock)
penstock_test(tools/signals)
target_sources(tools_signals_test PRIVATE ${PROJECT_SOURCE_DIR}/tools/penstock/signals.cpp)
target_link_libraries(tools_signals_test PRIVATE penstock_tools_core penstock)
penstock_test(tools/train_weights)
target_link_libraries(tools_train_weights_test PRIVATE penstock_tools_towers penstock_tools penstock_towers)
if(TARGET penstock::farmhash)
  penstock_test(tools/columns_file)
  target_link_libraries(tools_columns_file_test PRIVATE penstock_tools_towers penstock_tools penstock_towers)
endif()

# The program's reports in JSON are as docs/report.schema.json describes them.
find_program(PENSTOCK_PYTHON python3)
if(PENSTOCK_PYTHON AND TARGET penstock_tool AND NOT PENSTOCK_SANITIZE)
  add_test(NAME tools/report_schema COMMAND ${PENSTOCK_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/report_schema_test.py
    $<TARGET_FILE:penstock_tool> ${PROJECT_SOURCE_DIR}/docs/report.schema.json)
  set_tests_properties(tools/report_schema PROPERTIES TIMEOUT ${test_timeout})
endif()

# Shell completions offer the flags of --help, and their values.
if(TARGET penstock_tool AND NOT CMAKE_CROSSCOMPILING AND NOT PENSTOCK_SANITIZE)
  add_test(NAME tools/completions COMMAND ${CMAKE_CURRENT_LIST_DIR}/completions_test.sh
    $<TARGET_FILE:penstock_tool> ${PROJECT_SOURCE_DIR})
  set_tests_properties(tools/completions PROPERTIES TIMEOUT ${test_timeout})
endif()
