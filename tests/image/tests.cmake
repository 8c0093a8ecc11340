penstock_test(image/jpeg core image)
penstock_test(image/resize core image)
