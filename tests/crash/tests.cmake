add_executable(crash_victim crash/victim.cpp crash/graphs.cpp)
target_include_directories(crash_victim PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(crash_victim PRIVATE penstock_private penstock ZLIB::ZLIB)

penstock_test(crash/crash)
target_sources(crash_crash_test PRIVATE crash/graphs.cpp crash/log.cpp)
target_link_libraries(crash_crash_test PRIVATE ZLIB::ZLIB)
target_compile_definitions(crash_crash_test PRIVATE PENSTOCK_VICTIM="$<TARGET_FILE:crash_victim>")
add_dependencies(crash_crash_test crash_victim)
