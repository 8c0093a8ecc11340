penstock_test(image/augment core image)
penstock_test(image/finish core image)
penstock_test(image/jpeg core image)
penstock_test(image/resize core image)
