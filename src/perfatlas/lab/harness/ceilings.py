"""Ceilings of a device: peaks by format and bandwidth by size, measured or of a system.

Shape legend: Z sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.lab.harness.clocks import CpuClock
from perfatlas.lab.harness.executions import Builder
from perfatlas.lab.harness.loop import Arm, Protocol, measure, one_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.hardware import System

PEAK_SHAPES: Final = ((512, 1024, 1024), (1024, 1024, 1024), (1024, 2048, 1024))
FORMATS: Final = ("fp64", "fp32", "bf16", "fp16")
SIZES: Final = tuple(2**power for power in range(13, 29))  # 8 KiB to 256 MiB
BRIEF: Final = Protocol(fewest=12, budget_s=0.2, warm_up_s=0.1)


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Limits of one core or one GPU."""

    flop_per_s: dict[str, float]  # Peak by format [FLOP/s]
    sizes: tuple[float, ...]  # Sizes of data (Z,) [bytes], ascending
    # Bandwidth of a copy at each size (Z,) [bytes/s]; bytes read and written count
    bytes_per_s: tuple[float, ...]
    call_s: float = 0.0  # Time of the shortest call of the library [s]
    origin: str = "roofline on ceilings of one core measured in this run"  # Where they are from
    shapes: dict[str, str] = field(default_factory=dict)

    def bandwidth(self, size: float) -> float:
        """Return the bandwidth at a size of data, between measured sizes by its logarithm.

        Args:
            size: Data that is used again and again [bytes].
        """
        return float(np.interp(np.log(max(size, 1.0)), np.log(self.sizes), self.bytes_per_s))

    @property
    def memory_bytes_per_s(self) -> float:
        """Bandwidth of data too large for caches [bytes/s]."""
        return self.bytes_per_s[-1]


def ceilings_of(system: System) -> Ceilings:
    """Return the ceilings of a system of the catalog or of a file.

    Args:
        system: The system; its device is what measures.
    """
    device = system.device
    peaks = {name: float(peak) for name, peak in device.peak_flop_per_s.items()}
    return Ceilings(
        flop_per_s=peaks,
        sizes=(device.memory_bytes,),
        bytes_per_s=(device.memory_bandwidth,),
        origin=f"kernels or roofline of system {system.name}",
    )


def measured_ceilings() -> Ceilings:
    """Return the ceilings of one core, measured."""
    make = Builder()
    with one_thread():
        peaks, shapes = {}, {}
        for name in FORMATS:
            rates = {shape: _product_rate(make, name, shape) for shape in PEAK_SHAPES}
            best = max(rates, key=rates.__getitem__)
            peaks[name], shapes[name] = rates[best], "x".join(map(str, best))
        bandwidths = tuple(_copy_rate(make, size) for size in SIZES)
        tiny = make.tensor("fp32", 1)
        call_s = _fastest(lambda: tiny.add_(1.0))
    return Ceilings(
        flop_per_s=peaks,
        sizes=tuple(map(float, SIZES)),
        bytes_per_s=bandwidths,
        call_s=call_s,
        shapes=shapes,
    )


def _product_rate(make: Builder, name: str, shape: tuple[int, int, int]) -> float:
    m, n, k = shape
    rows, weights = make.tensor(name, m, k), make.tensor(name, n, k)
    linear = make.torch.nn.functional.linear
    return 2.0 * m * n * k / _fastest(lambda: linear(rows, weights))


def _copy_rate(make: Builder, size: int) -> float:
    """Return bytes read and written per second by a copy between two halves of a size."""
    source, target = (make.tensor("fp32", size // 8) for _ in range(2))
    return size / _fastest(lambda: target.copy_(source))


def _fastest(call: Callable[[], object]) -> float:
    """Return the median time of a call on hot data [s]."""
    (measurement,) = measure([Arm(name="", calls=[call])], CpuClock(), BRIEF)
    return measurement.interval.median
