penstock_tests(core LAYERS core FILES dtype shape buffer tensor spec element error rng log description control_groups cpu_use json_text start_thread)
penstock_test(core/adds)
penstock_test(core/map)
