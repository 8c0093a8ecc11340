penstock_tests(io LAYERS core io FILES crc32c durable element_codec exclusive_file fault file_lock file_system find_files listing
  mmap other_format partial_file pread standard_streams uring state_file)
