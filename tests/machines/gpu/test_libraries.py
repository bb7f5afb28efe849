"""The time of library calls: passes over memory, work of SMs, random accesses and products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels.libraries import (
    LibraryParameters,
    LibraryShape,
    library_time_s,
)
from perfatlas.measurements.calibrations import library_match, without_devices
from perfatlas.operators import BOUND_COMPUTE, BOUND_MEMORY, BOUND_PADDING
from perfatlas.quantities import UnsupportedError

SILICON = SiliconRow(peak=50e12, bandwidth=4e12, sm_count=100.0, clock=2e9, l2=50e6)
PARAMETERS = LibraryParameters(2e-6, 0.8, 0.5, 1.0, 0.0, 4.0, 0.0, 32.0)
NOTHING = LibraryShape(
    **dict.fromkeys(LibraryShape._fields, 0.0) | {"tiles": np.inf}  # none
)


def price(shape: LibraryShape, parameters: LibraryParameters = PARAMETERS) -> tuple[Any, int]:
    times, codes = library_time_s(*(np.array([row]) for row in (shape, SILICON, parameters)))
    return float(times[0]), int(codes[0])


def test_passes_by_hand() -> None:
    # 9.6 GB at 3.2 TB/s, and 5 launches of 2 us
    shape = NOTHING._replace(cold_bytes=3.2e9, moved_bytes=9.6e9, launches=5.0)
    assert price(shape) == (pytest.approx(3e-3 + 10e-6, rel=1e-4), BOUND_MEMORY)
    # of 3.2 MB, later passes find all in the cache: 1 us at 3.2 TB/s
    small = NOTHING._replace(cold_bytes=3.2e6, moved_bytes=9.6e6)
    assert price(small)[0] == pytest.approx(1e-6, rel=1e-3)


def test_work_of_multiprocessors_by_hand() -> None:
    # 1e9 elements at a cycle and 5e8 accesses at 4: 3e9 cycles of 100 SMs at 2 GHz
    shape = NOTHING._replace(items=1e9, gathers=5e8, table_bytes=1e6)
    assert price(shape) == (pytest.approx(15e-3), BOUND_PADDING)
    # 1e12 FLOP at half of 50 TFLOP/s
    assert price(NOTHING._replace(flop=1e12)) == (pytest.approx(0.04), BOUND_COMPUTE)


def test_a_table_beyond_the_cache_is_read_from_memory() -> None:
    # of 200 MB the L2 holds a quarter: 7.5e8 accesses load 32 bytes at 3.2 TB/s
    free = PARAMETERS._replace(cycles_per_gather=0.0)
    shape = NOTHING._replace(gathers=1e9, table_bytes=200e6)
    assert price(shape, free) == (pytest.approx(7.5e-3), BOUND_MEMORY)


def test_a_product_of_few_tiles_leaves_multiprocessors_idle() -> None:
    # 1e12 FLOP of 20 tiles on 100 SMs: a fifth of half of 50 TFLOP/s
    shape = NOTHING._replace(flop=1e12, tiles=20.0)
    assert price(shape) == (pytest.approx(0.2), BOUND_COMPUTE)


def test_threads_wait_for_what_they_miss() -> None:
    # 2 ms of elements, then 1e9 accesses of which 3/4 load 32 bytes, 7.5 ms
    shape = NOTHING._replace(items=4e8, gathers=1e9, table_bytes=200e6)
    free = PARAMETERS._replace(cycles_per_gather=0.0)
    assert price(shape, free) == (pytest.approx(9.5e-3), BOUND_MEMORY)


@settings(deadline=None)
@given(st.floats(1e3, 1e10), st.floats(1.0, 10.0), st.floats(0.0, 1e9), st.floats(1.0, 1e10))
def test_more_work_never_takes_less_time(
    cold: float, passes: float, gathers: float, table: float
) -> None:
    shape = LibraryShape(0.0, cold, passes * cold, cold / 4.0, gathers, table, passes, np.inf)
    more = shape._replace(moved_bytes=2.0 * shape.moved_bytes, table_bytes=2.0 * table)
    assert price(more)[0] >= price(shape)[0] * (1.0 - 1e-12)


def test_a_device_that_was_not_measured_has_a_wider_interval() -> None:
    device = resolve_system("h100_sxm").device
    own = library_match(device, "scan")
    with without_devices(["h100_sxm"]):
        lent = library_match(device, "scan")
    assert own is not None
    assert lent is not None
    assert (own.own, lent.own) == (True, False)
    assert lent.quantiles["q95"] > own.quantiles["q95"]
    assert "h100_sxm has no published scan" in lent.notes[-1]
    assert library_match(resolve_system("cpu").device, "scan") is None


def test_a_vendor_without_rows() -> None:
    foreign = library_match(resolve_system("mi300x").device, "gemm_fp32")
    assert foreign is not None
    assert foreign.other_vendor
    assert library_match(resolve_system("mi300x").device, "scan") is None  # limited by cycles
    with pytest.raises(UnsupportedError, match="no published times of libraries of Meta"):
        library_match(resolve_system("mtia_300").device, "scan")
