# Work that input workers do. The library's side, on links within one process; tests/cluster has real ones.
function(penstock_remote_test path)
  penstock_test(${path} ${ARGN})
  string(REPLACE "/" "_" name ${path})
  target_sources(${name}_test PRIVATE remote/loop_transport.cpp)
endfunction()

penstock_remote_test(remote/record SLOW "*")
target_sources(remote_record_test PRIVATE record/data.cpp record/digest.cpp record/graphs_errors.cpp record/graphs_feeds.cpp
  record/graphs_images.cpp record/graphs_order.cpp record/graphs_sources.cpp record/graphs_values.cpp
  record/graphs_work.cpp record/observe.cpp record/observe_feed.cpp record/record.cpp)
target_link_libraries(remote_record_test PRIVATE ZLIB::ZLIB PkgConfig::HWY)
# What a sanitizer watches takes no gRPC: it is not built for it.
if(TARGET penstock_cluster_module AND NOT PENSTOCK_SANITIZE)
  target_compile_definitions(remote_record_test PRIVATE PENSTOCK_CLUSTER_MODULE)
  add_dependencies(remote_record_test penstock_cluster_module)
endif()
penstock_remote_test(remote/deaths)
penstock_remote_test(remote/hostile)
penstock_remote_test(remote/memory SLOW "*")  # it measures its process
penstock_tests(remote FILES shared element_cache pixels packed local_links SOURCES remote/loop_transport.cpp)
