# The victim has the library's files with kill points compiled in; those of libpenstock.a are then not linked.
add_executable(crash_victim crash/victim.cpp crash/graphs.cpp
  ${PROJECT_SOURCE_DIR}/pipeline/io/durable.cpp
  ${PROJECT_SOURCE_DIR}/pipeline/engine/edge.cpp
  ${PROJECT_SOURCE_DIR}/pipeline/engine/edge_work.cpp
  ${PROJECT_SOURCE_DIR}/pipeline/engine/batch_edge.cpp)
target_compile_definitions(crash_victim PRIVATE PENSTOCK_KILL_POINTS)
target_include_directories(crash_victim PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(crash_victim PRIVATE penstock_private penstock TBB::tbb ZLIB::ZLIB)

penstock_test(crash/crash)
target_sources(crash_crash_test PRIVATE crash/graphs.cpp crash/log.cpp)
target_link_libraries(crash_crash_test PRIVATE ZLIB::ZLIB)
target_compile_definitions(crash_crash_test PRIVATE PENSTOCK_VICTIM="$<TARGET_FILE:crash_victim>")
add_dependencies(crash_crash_test crash_victim)
