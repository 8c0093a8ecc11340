penstock_test(staging/in_place)
