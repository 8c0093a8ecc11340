penstock_test(record/record)
target_sources(record_record_test PRIVATE record/data.cpp record/digest.cpp record/graphs_errors.cpp record/graphs_feeds.cpp
  record/graphs_images.cpp record/graphs_order.cpp record/graphs_sources.cpp record/graphs_values.cpp
  record/graphs_work.cpp record/observe.cpp record/observe_feed.cpp record/record.cpp)
target_link_libraries(record_record_test PRIVATE ZLIB::ZLIB PkgConfig::HWY)
set_target_properties(record_record_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
