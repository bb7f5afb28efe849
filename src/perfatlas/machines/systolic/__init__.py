"""Systolic machines: matrix units fed from vector memory, which software manages."""
