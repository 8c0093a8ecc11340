add_executable(crash_victim EXCLUDE_FROM_ALL crash/victim.cpp crash/graphs.cpp)
target_include_directories(crash_victim PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(crash_victim PRIVATE penstock_private penstock ZLIB::ZLIB)

penstock_test(crash/crash SLOW "*")
target_sources(crash_crash_test PRIVATE crash/graphs.cpp crash/log.cpp)
target_link_libraries(crash_crash_test PRIVATE ZLIB::ZLIB)
add_dependencies(crash_crash_test crash_victim)
