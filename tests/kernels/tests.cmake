# The bodies of our CUDA kernels on threads of the host, where TSan and ASan see what they do.
penstock_tests(kernels FILES entropy finish reconstruct towers planted)
