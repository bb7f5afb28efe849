"""Compiler's names of GPUs."""

from __future__ import annotations

from types import SimpleNamespace

from perfatlas.lab.harness.executions import gpu_target


def test_targets_of_gpus() -> None:
    """PyTorch for NVIDIA has the name of the card where PyTorch for AMD has the architecture."""
    h100 = SimpleNamespace(major=9, minor=0, gcnArchName="NVIDIA H100 80GB HBM3")
    mi300 = SimpleNamespace(major=9, minor=4, gcnArchName="gfx942:sramecc+:xnack-")
    assert gpu_target(h100, hip=False) == "sm_90"
    assert gpu_target(mi300, hip=True) == "gfx942"
