penstock_tests(jpeg LAYERS core io http codec jpeg image
  FILES header kernels pixels verdicts records record_faults shared_tables)
