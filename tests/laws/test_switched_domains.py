"""A switched scale-up domain of more GPUs than were measured: one curve in size and in ranks."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Final

import numpy as np
import pytest

from perfatlas import collective
from perfatlas.collectives import CollectiveShapes, price_collectives
from perfatlas.collectives.pricing import Implementation
from perfatlas.engines import all_reduce_groups, resolve_engine
from perfatlas.hardware import resolve_system, system_names
from perfatlas.operators import FloatArray

MEASURED: Final = 8  # most ranks of a library's rows over a switch
WIDENED: Final = ("b200_sxm", "h200_sxm")  # with a larger domain than they are built with
RACKS: Final = tuple(  # of figures that no source disputes
    name
    for name in system_names()
    for system in (resolve_system(name),)
    for links in (system.device.scale_up,)
    if links.kind == "nvlink" and links.domain_size > MEASURED and not system.ranges
)
SYSTEMS: Final = (*RACKS, *(f"{name}{{device.scale_up.domain_size=72}}" for name in WIDENED))
OPS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
BYTES: Final = 2.0 ** np.arange(8.0, 35.0, 0.5)
RANKS: Final = np.arange(MEASURED, 73.0)
STEP: Final = 1.25  # largest ratio of times of neighbouring numbers of ranks
EQUAL_LINKS: Final = 1.15  # largest ratio of times on systems with equal links
INTERVAL: Final = 4.0  # widest 90% interval on 72 ranks at the sizes measured there


@cache
def times_s(system: str, op: str, *, kernels: bool) -> FloatArray:
    """Return the times of all sizes on all numbers of ranks, with kernels of engines (B, R) [s]."""
    groups = all_reduce_groups(resolve_engine("ideal")) if kernels else {}
    bytes_U, ranks_U = (grid.ravel() for grid in np.meshgrid(BYTES, RANKS, indexing="ij"))
    prices = price_collectives(
        CollectiveShapes(op=op, bytes=bytes_U, ranks=ranks_U, stride=np.ones_like(bytes_U)),
        systems=[resolve_system(system)],
        system_index_U=np.zeros(bytes_U.size, np.int64),
        tier="auto",
        implementation=Implementation(custom_groups=groups),
    ).prices
    return prices.time_s_CO.reshape(BYTES.size, RANKS.size)


def test_the_catalog_has_racks() -> None:
    assert {"gb200", "gb300"} <= set(RACKS)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("op", OPS)
def test_time_rises_with_bytes_and_one_more_rank_changes_it_little(system: str, op: str) -> None:
    # Engines run other kernels over several nodes than inside one, so that those of a node of 8 do
    # not continue in a wider domain.
    for kernels in (False, True) if system in RACKS else (False,):
        time_BR = times_s(system, op, kernels=kernels)
        assert (np.diff(time_BR, axis=0) >= -1e-9 * time_BR[:-1]).all()
        step_BR = time_BR[:, 1:] / time_BR[:, :-1]
        assert step_BR.max() < STEP
        assert step_BR.min() > 1.0 / STEP


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("pair", list(combinations(RACKS, 2)))
def test_racks_with_equal_links_take_equal_times(pair: tuple[str, str], op: str) -> None:
    first, second = (resolve_system(name).device.scale_up for name in pair)
    if first != second:
        pytest.skip("other links")
    for kernels in (False, True):
        ratio_BR = times_s(pair[0], op, kernels=kernels) / times_s(pair[1], op, kernels=kernels)
        assert np.exp(np.abs(np.log(ratio_BR)).max()) < EQUAL_LINKS


@pytest.mark.parametrize("op", OPS)
def test_more_ranks_keep_a_calibration(op: str) -> None:
    systems = [resolve_system(name) for name in system_names()]
    index_U = np.repeat(np.arange(len(systems)), 5)
    ranks_U = np.tile([2.0, 4.0, 8.0, 16.0, 72.0], len(systems))
    found = price_collectives(
        CollectiveShapes(
            op=op, bytes=np.full(ranks_U.size, 2.0**20), ranks=ranks_U, stride=np.ones(ranks_U.size)
        ),
        systems=systems,
        system_index_U=index_U,
        tier="auto",
    )
    known_SR = (found.prices.match_CO[:, 0] >= 0).reshape(len(systems), 5)
    assert known_SR.any()
    assert (known_SR == known_SR[:, :1]).all()


@pytest.mark.parametrize("system", RACKS)
@pytest.mark.parametrize("mib", [512, 1024, 2048, 4096, 8192])
def test_the_interval_of_large_sums_on_a_rack(system: str, mib: int) -> None:
    found = collective(
        system=system, op="all_reduce", bytes=mib * 2**20, gpus=72, kernel_family="nccl"
    ).results
    assert found["time_s_high"] < INTERVAL * found["time_s_low"]


# NCCL 2.26.2 on GB200, all_reduce over one rack: coreweave/nccl-tests README.md at 0120901. Nothing
# is fitted to these rows.
@pytest.mark.parametrize(
    ("mib", "bus_gb_per_s"),
    [(512, 586.06), (1024, 681.17), (2048, 757.78), (4096, 839.16), (8192, 834.57)],
)
def test_a_rack_of_gb200_sums_as_published(mib: int, bus_gb_per_s: float) -> None:
    found = collective(
        system="gb200", op="all_reduce", bytes=mib * 2**20, gpus=72, kernel_family="nccl"
    ).results
    assert found["bus_bandwidth_bytes_per_s"] == pytest.approx(bus_gb_per_s * 1e9, rel=0.12)
    measured_s = 2.0 * mib * 2**20 * 71.0 / 72.0 / (bus_gb_per_s * 1e9)
    assert found["time_s_low"] < measured_s < found["time_s_high"]
