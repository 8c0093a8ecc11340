# The bodies of our CUDA kernels on threads of the host, where TSan and ASan see what they do.
penstock_test(kernels/finish)
penstock_test(kernels/reconstruct)
penstock_test(kernels/towers)
penstock_test(kernels/planted)
