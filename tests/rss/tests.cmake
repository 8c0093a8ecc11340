# A sanitizer takes memory of its own.
if(TARGET penstock_tool AND NOT PENSTOCK_SANITIZE)
  penstock_program_test(rss/rss SLOW "*")
  target_link_libraries(rss_rss_test PRIVATE JPEG::JPEG PNG::PNG)
endif()
