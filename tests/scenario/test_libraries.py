"""`kernel op sort`, `join`, `fft` and their like, `kernel gemm --format fp64`, and query plans."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError
from perfatlas.scenario.operator_queries import LIBRARIES

ASKED: dict[str, dict[str, Any]] = {
    "sort": {"rows": 10**8},
    "scan": {"rows": 10**8},
    "reduce": {"rows": 10**8},
    "histogram": {"rows": 10**8, "bins": 10**6},
    "filter": {"rows": 10**8},
    "join": {"rows": 10**8, "build_rows": 10**7},
    "group_by": {"rows": 10**8, "groups": 10**6},
    "spmv": {"rows": 10**7, "nonzeros": 10**8},
    "stencil": {"width": 512, "height": 512, "depth": 512},
    "fft": {"width": 4096, "batch": 4096},
    "solve": {"n": 128, "batch": 1000},
}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sort", {"system": "h200_sxm", "rows": 0}, "must be at least 1"),
    ("sort", {"system": "h200_sxm", "rows": 2**40}, "must be at most 10,000,000,000"),
    ("scan", {"system": "l4", "rows": 10**10}, "80.0 GB exceed the memory of l4"),
    ("group_by", {"system": "l4", "rows": 10, "groups": 11}, "groups = 11 exceeds rows = 10"),
    ("spmv", {"system": "l4", "rows": 10, "nonzeros": 101}, "exceeds the elements of the matrix"),
    ("filter", {"system": "l4", "rows": 10, "selectivity": 1.5}, "must be at most 1"),
    ("fft", {"system": "l4", "width": 8, "format": "bf16"}, "format"),
    ("sort", {"system": "tpu_v5e", "rows": 10}, "no library of this operator is known"),
    ("sort", {"system": "l4", "rows": 10, "tier": "measured"}, "no measured tables"),
]


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_operator_has_a_time_with_an_interval(name: str) -> None:
    for system in ("h100_sxm", "b200_sxm", "mi300x"):
        answer = perfatlas.kernel_op(name, system=system, **ASKED[name])
        found = answer.results
        assert found["bound_time_s"] <= found["time_s_low"] <= found["time_s"]
        assert found["time_s"] < found["time_s_high"]
        assert found["tier"] == "physics"
        own = answer.evidence.support == "measured here"
        assert own or any("has no published" in warning for warning in answer.warnings)


@pytest.mark.parametrize(("name", "fields", "message"), REFUSED)
def test_refusals(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PerfatlasError, match=message):
        perfatlas.kernel_op(name, **fields)


def test_a_table_of_queries() -> None:
    table: dict[str, list[Any]] = {
        "system": ["h200_sxm"] * 2,
        "rows": [10**6, 10**8],
        "algorithm": ["merge", "radix"],
    }
    from perfatlas.verbs.kernel import kernel_columns

    found = kernel_columns("sort", table)
    assert found["error"] == [None, None]
    alone = perfatlas.kernel_op("sort", system="h200_sxm", rows=10**8).results["time_s"]
    assert found["time_s"][1] == alone


def test_a_product_in_fp64() -> None:
    shape: dict[str, Any] = {"m": 8192, "n": 8192, "k": 8192, "format": "fp64"}
    found = perfatlas.kernel_gemm(system="h100_sxm", **shape).results
    assert found["bound_time_s"] == pytest.approx(2 * 8192**3 / 66.9e12)
    assert found["bound"] == "compute"
    assert 0.85 < found["roofline_share"] < 1.0
    with pytest.raises(UnsupportedError, match="tpu_v5e does not multiply in fp64"):
        perfatlas.kernel_gemm(system="tpu_v5e", **shape)
    with pytest.raises(InvalidSpecError, match="a call of a BLAS library"):
        perfatlas.kernel_gemm(system="h100_sxm", **shape, kernel_family="vllm")
    with pytest.raises(UnsupportedError, match="unknown format 'fp64'"):
        perfatlas.estimate(model="meta-llama/Llama-3.1-8B", system="h100_sxm", format="fp64")


def test_a_query_plan_is_the_sum_of_its_operators() -> None:
    plan = perfatlas.estimate(model="examples/query_plan.toml", system="h200_sxm")
    rows = {row["name"]: row["time_s"] for row in plan.breakdown}
    alone: dict[str, dict[str, Any]] = {
        "filter": {"rows": 10**8, "value_bytes": 16, "selectivity": 0.3},
        "join": {"rows": 3 * 10**7, "build_rows": 10**7},
        "group_by": {"rows": 3 * 10**7, "groups": 10**7},
        "sort": {"rows": 10**7, "key_bytes": 8, "value_bytes": 8},
    }
    for name, fields in alone.items():
        found = perfatlas.kernel_op(name, system="h200_sxm", **fields).results["time_s"]
        assert rows[f"{name}_1"] == pytest.approx(found)
    assert plan.results["latency_s"] == pytest.approx(sum(rows.values()), rel=0.01)
