# Every test in the folder, so that a new one needs no line.
file(GLOB conformance_tests RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS conformance/*_test.cpp)
foreach(test ${conformance_tests})
  string(REGEX REPLACE "_test.cpp$" "" test ${test})
  set(slow)
  if(test STREQUAL "conformance/feed_divisions")
    set(slow SLOW "*Divisions.GoOnInOthers*" "*Divisions.*_drop" "*Divisions.*_pad" "*Divisions.*_stop")  # 864 feeds of each graph
  endif()
  if(test STREQUAL "conformance/feeds")
    set(slow SLOW "*Feeds.WakeEveryTower*_drop" "*Feeds.WakeEveryTower*_pad" "*Feeds.WakeEveryTower*_stop")  # none ends
  endif()
  penstock_test(${test} ${slow})
  string(REPLACE "/" "_" name ${test})
  target_link_libraries(${name}_test PRIVATE TBB::tbb JPEG::JPEG PNG::PNG)
endforeach()
target_link_libraries(conformance_strategies_test PRIVATE penstock_towers)
