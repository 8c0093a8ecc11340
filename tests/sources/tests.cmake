penstock_tests(sources LAYERS core io http sources FILES tfrecord tfrecord_damage tar tar_corners tar_damage tar_facts memory_sources
  images labels hidden fixed_rows npy idx text csv csv_lines csv_missing csv_names synthetic example example_reader sequence_example
  golden offset_index hostile_index shards other_formats known_files dangling_links)
penstock_test(sources/datasets)
penstock_test(sources/contents)
penstock_test(sources/token_shards)
penstock_tests(sources PROGRAM sources_image_tests FILES image_records image_tails LIBRARIES JPEG::JPEG PNG::PNG)
