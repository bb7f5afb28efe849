"""Kernels in Triton, compiled in a process of their own; importing one needs the extra `bench`.

Arrays are contiguous, the last dimension fastest. `sizes` holds what changes between calls, `TILE`
what a kernel is compiled for.
"""
