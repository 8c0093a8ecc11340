# Rules of parameter servers, and trainers that use them, all in one process.
foreach(name async_server sync_server table_rows served_trainer served_faults table_training)
  penstock_towers_test(towers/servers/${name})
endforeach()
target_sources(towers_servers_table_training_test PRIVATE towers/fake_gpu.cpp towers/fake_cudnn.cpp
  towers/fake_pointwise.cpp towers/fake_nccl.cpp)
