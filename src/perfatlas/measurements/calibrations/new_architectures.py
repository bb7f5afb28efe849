"""How much kernels differ between architectures, over all operators."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from perfatlas.measurements.calibrations.transfer import (
    catalog_silicon,
    errors_apart,
    load_transfers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PRICED: tuple[str, ...] = (
    *("gemm", "moe", "streaming", "prefill_attention", "decode_attention"),
    *("mla_prefill", "mla_decode", "scan_prefill", "scan_decode"),
)


@cache
def kernel_errors_apart(hidden: frozenset[str]) -> Mapping[int, float]:
    """Return the error of whole devices priced from each distance, over the operators of a step.

    Args:
        hidden: Devices left out.

    Example:
        >>> from perfatlas.measurements.calibrations import kernel_errors_apart
        >>> near, far = (kernel_errors_apart(frozenset())[step] for step in (0, 1))
        >>> near < far
        True
    """
    cells = [cell for operator in PRICED for cell in load_transfers(operator).values()]
    names = sorted({name for cell in cells for name in cell.devices} - hidden)
    silicon = {one.name: one for one in catalog_silicon(names, links=False)}
    return MappingProxyType(errors_apart(cells, silicon))
