"""Kernels of earlier releases, which later releases of an engine replaced.

A kernel family `vllm@0.22` is that of the releases of vLLM through 0.22. It has calibrations of
those operators alone that ran other kernels then; all others are those of the family `vllm`.

A kernel family `vllm@tp` is that of the newest release where no ranks share the experts, if it runs
other kernels then.
"""

from __future__ import annotations

from functools import cache

from perfatlas.measurements.calibrations import calibration


def base_family(family: str) -> str:
    """Return the kernel family without its release.

    Args:
        family: A kernel family, with or without a release.

    Example:
        >>> from perfatlas.measurements.calibrations import base_family
        >>> base_family("vllm@0.22"), base_family("vllm")
        ('vllm', 'vllm')
    """
    return family.partition("@")[0]


@cache
def release_calibrations(family: str) -> dict[str, calibration.Calibration]:
    """Return the calibrations of an earlier release of all devices, by id; empty without any.

    Example:
        >>> from perfatlas.measurements.calibrations import release_calibrations
        >>> release_calibrations("abacus@1")
        {}
    """
    folder = calibration.calibration_folder() / "releases" / family
    paths = sorted(folder.glob("*.toml")) if base_family(family) != family else []
    return {
        name: cell for path in paths for name, cell in calibration.read_calibrations(path).items()
    }
