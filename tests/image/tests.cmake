penstock_tests(image LAYERS core io http codec jpeg image FILES exif finish jpeg jpeg_faults ops ops_contract png resize
  warnings)
penstock_test(image/allocation core io http codec jpeg image)
penstock_test(image/augment core io http codec jpeg image)
if(NOT PENSTOCK_SANITIZE)  # it counts what malloc gives
  penstock_test(image/codec_memory core io http codec jpeg image SLOW "*")
endif()
