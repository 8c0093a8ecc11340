penstock_test(staging/in_place)
penstock_test(staging/device)
penstock_test(staging/host_device)
