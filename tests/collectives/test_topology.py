"""Rings over PCIe are priced on a typical machine, and the interval spans the published ones."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from perfatlas.collectives.topology import NOTE, published_rings
from perfatlas.verbs.collective import collective, collective_columns

SIZE = 1 << 26


def asked(system: str, gpus: int, op: str = "all_reduce") -> tuple[dict[str, Any], tuple[str, ...]]:
    answer = collective(system=system, op=op, bytes=SIZE, gpus=gpus)
    return dict(answer.results), answer.evidence.assumptions


@pytest.mark.parametrize("system", ["l40s", "rtx_pro_6000_server", "rtx_4090"])
@pytest.mark.parametrize("gpus", [4, 8])
def test_large_groups_reach_a_typical_share_of_the_link_and_span_all_machines(
    system: str, gpus: int
) -> None:
    results, notes = asked(system, gpus)
    assert NOTE in notes
    link = {"l40s": 32e9, "rtx_4090": 32e9, "rtx_pro_6000_server": 64e9}[system]
    shares = [ring["share"] for ring in published_rings() if ring["gpus"] == gpus]
    rate = results["bus_bandwidth_bytes_per_s"] / link
    assert min(shares) * 0.9 <= rate <= max(shares)
    fastest = rate * results["time_s"] / results["time_s_low"]
    slowest = rate * results["time_s"] / results["time_s_high"]
    assert fastest >= 0.95 * max(shares)
    assert slowest <= min(shares)


def test_the_machine_of_the_table_stays_inside_the_interval() -> None:
    # the measured all-reduce of 2 MiB on eight L40S, in the tables of aiconfigurator-core 0.12.0
    answer = collective(system="l40s", op="all_reduce", bytes=1 << 21, gpus=8)
    assert answer.results["time_s"] < 0.3 * 2.58e-3
    assert answer.results["time_s_high"] > 2.58e-3


@pytest.mark.parametrize("system", ["l40s", "h100_sxm"])
def test_pairs_and_nvlink_are_priced_as_calibrated(system: str) -> None:
    _, notes = asked(system, 2 if system == "l40s" else 8)
    assert NOTE not in notes


def test_exchanges_are_no_rings() -> None:
    _, notes = asked("l40s", 8, "all_to_all")
    assert NOTE not in notes


def test_groups_in_between_take_the_nearest_size() -> None:
    rates = [asked("l40s", gpus)[0]["bus_bandwidth_bytes_per_s"] for gpus in (4, 5, 6, 8)]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)
    assert rates[2] == pytest.approx(rates[3], rel=0.05)
    assert np.all(np.diff(rates) <= 0.05 * rates[0])


@pytest.mark.parametrize(
    ("system", "same"),
    [
        ("l40s{device.scale_up.bandwidth=64GB/s}", "l40s"),
        ("l40s{device.host_link.bandwidth=16GB/s}", "l40s{device.scale_up.bandwidth=16GB/s}"),
    ],
)
@pytest.mark.parametrize("gpus", [2, 8])
def test_a_ring_is_no_faster_than_the_link_to_the_host(system: str, same: str, gpus: int) -> None:
    results, limited = asked(system, gpus)[0], asked(same, gpus)[0]
    assert results["time_s"] == pytest.approx(limited["time_s"])
    assert results["time_s"] > 1.2 * results["bound_time_s"]


def test_one_gpu_in_a_table_of_rings_divides_nothing_by_zero() -> None:
    rows: dict[str, list[Any]] = {
        "system": ["l40s"] * 2,
        "op": ["all_reduce"] * 2,
        "bytes": [SIZE] * 2,
        "gpus": [1, 8],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = collective_columns(rows)
    assert list(table["time_s"]) == [0.0, asked("l40s", 8)[0]["time_s"]]
