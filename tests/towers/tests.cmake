# Towers as on GPUs, with NVIDIA's libraries replaced by loops on the host.
add_library(test_fake_gpu OBJECT towers/fake_gpu.cpp towers/fake_cudnn.cpp towers/fake_pointwise.cpp towers/fake_nccl.cpp)
target_link_libraries(test_fake_gpu PRIVATE penstock_private penstock_towers penstock)
target_include_directories(test_fake_gpu PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(test_fake_gpu PRIVATE ${test_compile_options})

# servers: rules of parameter servers, and trainers that use them, all in one process.
set(columns)
if(TARGET penstock::farmhash)
  set(columns columns column_models columns_examples keras_layers)
  penstock_test(towers/columns_golden)
  target_link_libraries(towers_columns_golden_test PRIVATE penstock_tools_towers penstock_tools penstock_towers)
endif()
penstock_tests(towers FILES variables layers updates strategies models classes class_metrics text_words early_stop checkpoint
  resume virtual_towers follow_plan follower golden losses parameter_exchange from_tensorflow parameter_exchange_bits
  gpu_trainer exchange peers_exchange failures evaluation weights ${columns} servers/async_server servers/sync_server
  servers/table_rows servers/served_trainer servers/served_faults servers/table_training device_images gpu_passes
  LIBRARIES penstock_towers test_fake_gpu test_own_device JPEG::JPEG PNG::PNG)
penstock_test(towers/trainer SLOW "Trainer.ResNet18OnOneBatch")
penstock_test(towers/stall SLOW "*")
penstock_test(towers/gpu)  # tools/gpu_check.py runs it by itself
target_link_libraries(towers_gpu_test PRIVATE test_fake_gpu)
foreach(name trainer stall gpu)
  target_link_libraries(towers_${name}_test PRIVATE penstock_towers)
endforeach()
if(PENSTOCK_HAVE_REMOTE)
  penstock_test(towers/stored_checkpoints)
  target_link_libraries(towers_stored_checkpoints_test PRIVATE penstock_towers test_http_server)
  add_dependencies(towers_stored_checkpoints_test penstock_remote_module)
endif()
