"""Tier measured of collectives: exact hits, intervals by distance, and cases left in physics."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas import collectives
from perfatlas.collectives.pricing import Tier
from perfatlas.engines import all_reduce_groups, resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.measurements.tables import comm_rows, has_silicon
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables (extra [silicon]) are not installed"
)
CASES = (
    ("h200_sxm", "reduce_scatter", "nccl", "bf16"),
    ("b200_sxm", "all_reduce", "nccl", "bf16"),
    ("gb200", "custom_all_reduce", "vllm", "bf16"),
    ("gb200", "reduce_scatter", "nccl", "bf16"),
)


def price(
    device: str, op: str, sizes: list[float], ranks: list[float], *, family: str, tier: Tier
) -> collectives.PricedCollectives:
    return collectives.price_collectives(
        collectives.CollectiveShapes(
            op=op, bytes=np.array(sizes), ranks=np.array(ranks), stride=np.ones(len(sizes))
        ),
        systems=[resolve_system(device)],
        system_index_U=np.zeros(len(sizes), np.int64),
        tier=tier,
        implementation=collectives.Implementation(
            family=family, custom_groups=all_reduce_groups(resolve_engine(family)) if family else {}
        ),
    )


@pytest.mark.parametrize(("device", "operator", "family", "format_name"), CASES)
def test_a_measured_size_is_the_measured_time(
    device: str, operator: str, family: str, format_name: str
) -> None:
    rows = comm_rows(device, operator, family, format_name)
    keys, first, count = np.unique(
        np.column_stack((rows.bytes_U, rows.ranks_U)), axis=0, return_index=True, return_counts=True
    )
    once = first[count == 1]
    priced = price(
        device,
        "all_reduce" if operator == "custom_all_reduce" else operator,
        rows.bytes_U[once].tolist(),
        rows.ranks_U[once].tolist(),
        family="" if family == "nccl" else family,
        tier="measured",
    )
    assert keys.shape[0] >= once.size > 15
    assert priced.prices.measured_CO[:, 0].all()
    np.testing.assert_allclose(priced.prices.time_s_CO[:, 0], rows.measured_s[once], rtol=1e-5)
    assert np.all(
        (priced.prices.low_s_CO[:, 0] <= priced.prices.time_s_CO[:, 0])
        & (priced.prices.time_s_CO[:, 0] <= priced.prices.high_s_CO[:, 0])
    )


def test_the_interval_widens_between_sizes_and_physics_is_used_far_away() -> None:
    size = [2.0**20, 2.0**20.5, 2.0**60]
    at, between, far = (
        price("h200_sxm", "all_gather", [one], [8.0], family="", tier="measured") for one in size
    )
    widths = [
        float((p.prices.high_s_CO[:, 0] - p.prices.low_s_CO[:, 0])[0] / p.prices.time_s_CO[0, 0])
        for p in (at, between)
    ]
    assert widths[0] <= widths[1]
    assert at.prices.measured_CO[:, 0].all()
    assert between.prices.measured_CO[:, 0].all()
    assert not far.prices.measured_CO[:, 0].any()
    physics = price("h200_sxm", "all_gather", [size[2]], [8.0], family="", tier="physics")
    assert far.prices.time_s_CO[:, 0] == physics.prices.time_s_CO[:, 0]


@pytest.mark.parametrize(("device", "ranks"), [("h200_sxm", 16.0), ("gb200", 8.0)])
def test_more_ranks_than_measured_stay_in_physics(device: str, ranks: float) -> None:
    # 16 H200 cross nodes; 8 GB200 share a domain, of which 4 were measured.
    asked = (device, "all_reduce", [2.0**24], [ranks])
    measured = price(*asked, family="", tier="measured")
    physics = price(*asked, family="", tier="physics")
    assert not measured.prices.measured_CO[:, 0].any()
    assert measured.prices.time_s_CO[:, 0] == physics.prices.time_s_CO[:, 0]
    assert measured.prices.high_s_CO[:, 0] == physics.prices.high_s_CO[:, 0]


def test_changed_links_stay_in_physics() -> None:
    system = "h200_sxm{device.scale_up.bandwidth=300GB/s}"
    answer = collective(system=system, op="all_gather", bytes=2**20, gpus=8, tier="measured")
    assert answer.results["tier"] == "physics"
    assert "uses tier physics" in " ".join(answer.evidence.assumptions)


def test_a_step_takes_its_collectives_from_the_tables() -> None:
    answer = estimate(
        model="llama-3.1-70b",
        system="h200_sxm",
        gpus=8,
        tp=8,
        batch=16,
        isl=1024,
        osl=128,
        tier="measured",
    ).to_dict()
    reductions = [row for row in answer["breakdown"] if "all_reduce" in str(row["calibration"])]
    assert reductions
    assert {row["tier"] for row in reductions} == {"measured"}


@pytest.mark.parametrize("op", ["dispatch", "combine"])
@pytest.mark.parametrize("device", ["h200_sxm", "gb200"])
def test_expert_exchanges_stay_in_physics_with_a_note(device: str, op: str) -> None:
    asked = (device, op, [2.0**18, 2.0**24], [4.0, 4.0])
    for family in ("trtllm", ""):
        measured = price(*asked, family=family, tier="measured")
        physics = price(*asked, family=family, tier="physics")
        assert not measured.prices.measured_CO[:, 0].any()
        np.testing.assert_array_equal(
            measured.prices.time_s_CO[:, 0], physics.prices.time_s_CO[:, 0]
        )
        np.testing.assert_array_equal(
            measured.prices.high_s_CO[:, 0], physics.prices.high_s_CO[:, 0]
        )
        assert any(
            "dispatch and combine use tier physics" in note for note in measured.prices.notes
        )


def test_a_row_ten_times_its_neighbours_is_not_the_answer() -> None:
    # SGLang's all-reduce on 8 H100: 38.1 us at 1 KiB, 3.3 us at 512 B and 3.5 us at 2 KiB
    priced = price(
        "h100_sxm",
        "all_reduce",
        [512.0, 1024.0, 2048.0],
        [8.0] * 3,
        family="sglang",
        tier="measured",
    )
    below, at, above = priced.prices.time_s_CO[:, 0]
    assert below < at < above
    assert priced.prices.high_s_CO[1, 0] == pytest.approx(38.1e-6, rel=0.01)
    assert priced.prices.high_s_CO[0, 0] < 4e-6
