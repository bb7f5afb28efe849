"""GPUs: times of kernels, with bounds, in several tiers."""
