penstock_tests(engine FILES engine state sequential_model batch_ops plan keep kept_elements held_values held_bytes chunks columns element_columns texts slots memory
  save_anywhere changed_files outcomes budget budget_callers codec_budget exact audit retry skip_budget quarantine clock limits misuse read_pace slow_work uneven workers
  LIBRARIES ZLIB::ZLIB)
penstock_test(engine/schedules)
penstock_test(engine/allocation SLOW "SteadyState.*")
penstock_test(engine/lifecycle SLOW "Lifecycle.MemoryOverManyEpochs" "Lifecycle.MemoryOverManyRuns")
penstock_test(engine/faults SLOW "QuietMachine.*")
target_link_libraries(engine_faults_test PRIVATE ZLIB::ZLIB)
