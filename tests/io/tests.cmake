penstock_tests(io LAYERS core io http FILES hostile_patterns crc32c durable element_codec exclusive_file fault file_lock file_system find_files listing
  file_root mmap other_format partial_file pread standard_streams uring state_file)
penstock_test(io/readdir core io http)  # has a readdir of its own
target_link_libraries(io_readdir_test PRIVATE ${CMAKE_DL_LIBS})
