penstock_test(jpeg/header core image)
penstock_test(jpeg/kernels core image)
penstock_test(jpeg/pixels core image)
penstock_test(jpeg/verdicts core image)
