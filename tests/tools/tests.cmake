penstock_test(tools/numbers tools core)
penstock_test(tools/text tools core)
penstock_test(tools/pipeline_toml tools core)
penstock_test(tools/pipeline_flags tools core)
