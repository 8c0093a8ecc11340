if(TARGET penstock_pipelines)
  penstock_tests(pipelines FILES numbers text typed_name source_kinds toml hostile_toml c c_feed c_arrow LIBRARIES penstock_pipelines)
endif()
