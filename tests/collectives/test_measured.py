from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from perfatlas.collectives import CollectiveShapes, Implementation, price_collectives
from perfatlas.engines import all_reduce_groups, resolve_engine
from perfatlas.fitting.cells import Cell
from perfatlas.fitting.cells.collectives import collective_cells
from perfatlas.hardware import resolve_system
from perfatlas.measurements.tables import comm_rows, has_silicon, read_table
from perfatlas.operators import FloatArray
from perfatlas.pricing import PricedOperators
from perfatlas.sampling import error_statistics

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables (extra [silicon]) are not installed"
)

SWITCHED = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300")
# Mean absolute percentage error over all measured rows, mean over the devices. May only shrink.
LIBRARY_BUDGETS = {
    ("all_reduce", "bf16"): 0.045,
    ("all_reduce", "int8"): 0.052,
    ("reduce_scatter", "bf16"): 0.045,
    ("reduce_scatter", "int8"): 0.047,
    ("all_gather", "any"): 0.050,
    ("all_to_all", "any"): 0.056,
}
CUSTOM_BUDGETS = {"vllm": 0.050, "sglang": 0.050, "trtllm": 0.062}


@cache
def cells(device: str) -> dict[str, Cell]:
    return {cell.id: cell for cell in collective_cells(device)}


def priced_cell(cell: Cell, most: float = np.inf) -> tuple[PricedOperators, FloatArray]:
    """Price the rows of a cell through the public function, up to a size of the group."""
    rows = cell.load()
    kept = rows.shape_UD[:, 1] <= most
    shape_UD, measured_s = rows.shape_UD[kept], rows.measured_s[kept]
    custom = cell.operator == "custom_all_reduce"
    size = measured_s.size
    priced = price_collectives(
        CollectiveShapes(
            op="all_reduce" if custom else cell.operator,
            bytes=shape_UD[:, 0],
            ranks=shape_UD[:, 1],
            stride=np.ones(size),
            format_name="int8" if cell.format == "int8" else "bf16",
        ),
        systems=[resolve_system(cell.device)],
        system_index_U=np.zeros(size, np.int64),
        tier="physics",
        implementation=Implementation(
            family=cell.family if cell.family != "nccl" else "",
            custom_groups=all_reduce_groups(resolve_engine(cell.family)) if custom else {},
        ),
    )
    assert {match.calibration.id for match in priced.prices.matches} >= {cell.id}
    return priced.prices, measured_s


def public_error(cell: Cell, most: float = np.inf) -> float:
    """Score a cell through the public function, as a user prices it."""
    prices, measured_s = priced_cell(cell, most)
    return error_statistics(prices.time_s_CO[:, 0], measured_s).mape


@pytest.mark.parametrize(("op", "format_name"), list(LIBRARY_BUDGETS))
def test_library_collectives_on_nvlink(op: str, format_name: str) -> None:
    errors = [
        public_error(cells(device)[f"{device}/{op}/nccl/{format_name}"]) for device in SWITCHED
    ]
    assert np.mean(errors) <= LIBRARY_BUDGETS[op, format_name]


@pytest.mark.parametrize("family", list(CUSTOM_BUDGETS))
def test_engine_all_reduce_on_nvlink(family: str) -> None:
    errors = [
        public_error(cells(device)[f"{device}/custom_all_reduce/{family}/bf16"])
        for device in SWITCHED
    ]
    assert np.mean(errors) <= CUSTOM_BUDGETS[family]


@pytest.mark.parametrize(("device", "budget"), [("rtx_pro_6000_server", 0.075), ("l40s", 0.17)])
def test_pairs_over_pcie_are_described_less_well(device: str, budget: float) -> None:
    errors = [public_error(cell, 2.0) for cell in cells(device).values()]
    assert max(errors) <= budget


@pytest.mark.parametrize("device", ["rtx_pro_6000_server", "l40s"])
def test_intervals_of_larger_groups_over_pcie_hold_the_measured_machine(device: str) -> None:
    held = []
    for cell in cells(device).values():
        prices, measured_s = priced_cell(cell)
        low_s, high_s = prices.low_s_CO[:, 0], prices.high_s_CO[:, 0]
        held.append(((low_s <= measured_s) & (measured_s <= high_s)).mean())
    assert min(held) >= 0.85


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_expert_exchange_on_two_to_sixty_four_ranks(op: str) -> None:
    cell = cells("gb200")[f"gb200/{op}/trtllm/any"]
    assert set(cell.load().shape_UD[:, 1]) == {2.0, 4.0, 8.0, 16.0, 32.0, 64.0}
    assert public_error(cell) <= 0.11


def test_deepep_takes_the_faster_of_two_kernels() -> None:
    # SGLang 0.5.12, 8 x H100, hidden 7168, 8 of 256 experts: low latency 13.194 us for one token
    # (normal 25.9 us), normal 492.163 us for 4,096 tokens. 8 x 7/8 choices: 5.3 ranks reached.
    rows = comm_rows("h100_sxm", "dispatch", "sglang", "any")
    for tokens, time_s in ((1.0, 13.194e-6), (4096.0, 492.163e-6)):
        found = np.isclose(rows.measured_s, time_s, rtol=1e-4)
        assert found.any()
        ranks_reached = rows.bytes_U[found] / (tokens * 7168.0 * (1.0 + 4.0 / 128.0))
        assert np.isclose(ranks_reached, 5.3, atol=0.1).any()


def test_the_table_counts_elements() -> None:
    # NCCL 2.29.2, 8 x H200, half: 268,435,456 elements are 512 MiB, 2.040 ms
    rows = cells("h200_sxm")["h200_sxm/all_reduce/nccl/bf16"].load()
    largest = (rows.shape_UD[:, 0] == 2.0**29) & (rows.shape_UD[:, 1] == 8.0)
    np.testing.assert_allclose(rows.measured_s[largest], [2.040e-3], rtol=1e-3)


def test_nothing_measured_beats_the_bound() -> None:
    for device in SWITCHED:
        for cell in cells(device).values():
            rows = cell.load()
            assert np.all(rows.measured_s >= rows.roofline_s)


def test_extrapolated_ranks_stay_in_their_interval() -> None:
    # Beyond 4 GPUs of GB300 SGLang's graph rows are NCCL's: 8 and 16 ranks, not in any fit.
    table = read_table("gb300", "comm", "sglang", "custom_allreduce_perf")
    columns = table.columns
    graph = np.char.find(columns["kernel_source"].astype(str), "graph") >= 0
    keep = graph & (columns["num_gpus"] > 4)
    measured_s = table.measured_s()[keep]
    priced = price_collectives(
        CollectiveShapes(
            op="all_reduce",
            bytes=2.0 * columns["message_size"][keep],
            ranks=columns["num_gpus"][keep].astype(np.float64),
            stride=np.ones(measured_s.size),
        ),
        systems=[resolve_system("gb300")],
        system_index_U=np.zeros(measured_s.size, np.int64),
        tier="physics",
    )
    inside = (measured_s >= priced.prices.low_s_CO[:, 0]) & (
        measured_s <= priced.prices.high_s_CO[:, 0]
    )
    assert measured_s.size > 40
    assert np.mean(inside) >= 0.85
    assert error_statistics(priced.prices.time_s_CO[:, 0], measured_s).mape <= 0.15
