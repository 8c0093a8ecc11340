# Rules of parameter servers, and trainers that use them, all in one process.
foreach(name async_server sync_server table_rows served_trainer served_faults table_training)
  penstock_towers_test(towers/servers/${name})
endforeach()
target_link_libraries(towers_servers_table_training_test PRIVATE test_fake_gpu)
