"""Kernels of GPUs: a module per operator, with the formula of its time and what declares it."""
