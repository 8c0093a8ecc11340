penstock_tests(tools FILES pipeline_flags digest terminal report verdict worker_verdict verdict_table screen interrupts shards
  towers determinism LIBRARIES penstock_tools penstock)
penstock_test(tools/signals)
target_sources(tools_signals_test PRIVATE ${PROJECT_SOURCE_DIR}/tools/penstock/signals.cpp)
target_link_libraries(tools_signals_test PRIVATE penstock_tools_core penstock)
if(TARGET penstock::farmhash)
  penstock_test(tools/columns_file)
  target_link_libraries(tools_columns_file_test PRIVATE penstock_tools_towers penstock_tools penstock_towers)
endif()
