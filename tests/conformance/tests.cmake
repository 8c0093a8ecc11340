# Every test in the folder, so that a new one needs no line.
file(GLOB conformance_tests RELATIVE ${CMAKE_CURRENT_LIST_DIR} CONFIGURE_DEPENDS conformance/*_test.cpp)
list(TRANSFORM conformance_tests REPLACE "_test.cpp$" "")
list(REMOVE_ITEM conformance_tests feed_divisions feeds strategies)
penstock_tests(conformance FILES ${conformance_tests} SOURCES remote/loop_transport.cpp
  LIBRARIES TBB::tbb JPEG::JPEG PNG::PNG ZLIB::ZLIB)
penstock_test(conformance/feed_divisions  # 864 feeds of each graph
  SLOW "*Divisions.GoOnInOthers*" "*Divisions.*_drop" "*Divisions.*_pad" "*Divisions.*_stop")
penstock_test(conformance/feeds  # none of these ends
  SLOW "*Feeds.WakeEveryTower*_drop" "*Feeds.WakeEveryTower*_pad" "*Feeds.WakeEveryTower*_stop")
penstock_test(conformance/strategies)
target_link_libraries(conformance_strategies_test PRIVATE penstock_towers)
