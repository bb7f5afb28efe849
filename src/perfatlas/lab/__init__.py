"""The kernel lab: kernels analysed, compiled and measured."""
