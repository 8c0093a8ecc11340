penstock_test(image/jpeg core image)
