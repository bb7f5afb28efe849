"""`kernel op sort`, `join`, `fft` and their like, `kernel gemm --format fp64`, and query plans."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.networks.graphs import read_graph
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
# measured on GPUs of one vendor, by the cycles of its SMs
OF_CYCLES = ("sort", "scan", "histogram", "filter", "join", "group_by")
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sort", {"system": "h200_sxm", "rows": 0}, "must be at least 1"),
    ("sort", {"system": "h200_sxm", "rows": 2**40}, "must be at most 10,000,000,000"),
    ("scan", {"system": "l4", "rows": 10**10}, "80.0 GB exceed the memory of l4"),
    ("group_by", {"system": "l4", "rows": 10, "groups": 11}, "groups = 11 exceeds rows = 10"),
    ("spmv", {"system": "l4", "rows": 10, "nonzeros": 101}, "exceeds the elements of the matrix"),
    ("spmv", {"system": "l4", "rows": 10, "nonzeros": 101}, "rows = columns = 10"),
    ("filter", {"system": "l4", "rows": 10, "selectivity": 1.5}, "must be at most 1"),
    ("fft", {"system": "l4", "width": 8, "format": "bf16"}, "format"),
    ("sort", {"system": "tpu_v5e", "rows": 10}, "for which no library of sorts"),
    ("sort", {"system": "l4", "rows": 10, "tier": "measured"}, "no measured tables"),
]


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_operator_has_a_time_with_an_interval(name: str) -> None:
    for system in ("h100_sxm", "b200_sxm", "mi300x"):
        answer = perfatlas.kernel_op(name, system=system, **ASKED[name])
        found = answer.results
        if system == "mi300x" and name in OF_CYCLES:
            assert found["tier"] == "bound"
            assert any("the time is the roofline" in warning for warning in answer.warnings)
            continue
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


def test_plans_of_a_batch_run_one_after_another() -> None:
    one, eight = (
        perfatlas.estimate(model="examples/query_plan.toml", system="h200_sxm", batch=batch).results
        for batch in (1, 8)
    )
    assert eight["latency_s"] == pytest.approx(8.0 * one["latency_s"], rel=0.01)
    assert eight["usd_per_million_items"] == pytest.approx(one["usd_per_million_items"], rel=0.01)


def test_a_plan_is_refused_where_no_library_is_known() -> None:
    with pytest.raises(UnsupportedError, match="for which no library of sorts"):
        perfatlas.estimate(model="examples/query_plan.toml", system="tpu_v5e")


PLANS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "filter", "rows": 10, "selectivity": 30}, "selectivity = 30 is 30, more than 1 = 1"),
    ({"kind": "group_by", "rows": 10, "groups": 11}, "groups = 11 is 11, more than rows = 10"),
    ({"kind": "spmv", "rows": 10, "nonzeros": 101}, "more than rows . columns = 100"),
]


@pytest.mark.parametrize(("row", "message"), PLANS)
def test_plans_keep_the_rules_of_operators(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        read_graph({"name": "plan", "parameters": 0, "operators": [row]}, "plan")


def test_memory_of_a_plan_is_that_of_its_largest_call() -> None:
    row = {"kind": "sort", "rows": "1e9", "key_bytes": 8}
    plan = read_graph({"name": "plan", "parameters": 0, "operators": [row]}, "plan")
    assert max(live.fixed for live in plan.live_elements()) == 2 * 8e9 / 2


def test_a_join_builds_on_the_smaller_table() -> None:
    small = {"rows": 10**7, "build_rows": 10**5, "selectivity": 0.3}
    swapped = {"rows": 10**5, "build_rows": 10**7, "selectivity": 0.3}
    times = [
        perfatlas.kernel_op("join", system="h100_sxm", **fields).results["time_s"]
        for fields in (small, swapped)
    ]
    assert times[0] == pytest.approx(times[1])


def test_what_tensor_cores_do_not_multiply_has_the_peak_of_vector_units() -> None:
    shares = {}
    asked: dict[str, dict[str, Any]] = {
        "stencil": {"width": 2**27},
        "fft": {"width": 4096, "batch": 4096, "format": "fp64"},
        "spmv": {"rows": 10**6, "nonzeros": 10**7},
        "solve": {"n": 1024, "batch": 100},
    }
    for name, fields in asked.items():
        found = perfatlas.kernel_op(name, system="h100_sxm", **fields).results
        shares[name] = found["flop_per_s"] / found["peak_share"]
    assert shares == pytest.approx(dict.fromkeys(shares, 33.5e12) | {"solve": 66.9e12})


OUTSIDE: list[tuple[str, str, dict[str, Any], str]] = [
    ("histogram", "b200_sxm", {"rows": 10**8, "bins": 257}, "8,388,608 bytes of a table"),
    ("filter", "b200_sxm", {"rows": 1000}, "65,536 to 268,435,456 elements"),
    ("stencil", "h200_sxm", {"width": 4096, "height": 4096}, "0 random accesses"),
    ("solve", "h100_sxm", {"n": 16384}, "256 to 4,096 kernels or steps"),
]


@pytest.mark.parametrize(("name", "system", "fields", "told"), OUTSIDE)
def test_calls_outside_the_published_ones_are_uncertain(
    name: str, system: str, fields: dict[str, Any], told: str
) -> None:
    answer = perfatlas.kernel_op(name, system=system, **fields)
    found = answer.results
    assert any(told in warning for warning in answer.warnings)
    assert found["time_s_high"] >= 2.0 * found["time_s"] * (1.0 - 1e-9)
    assert found["time_s_low"] <= max(found["time_s"] / 2.0, found["bound_time_s"]) * (1.0 + 1e-9)


def test_calls_inside_the_published_ones_have_no_warning_of_their_size() -> None:
    answer = perfatlas.kernel_op("stencil", system="h200_sxm", width=2**27)
    assert not any("extrapolated" in warning for warning in answer.warnings)


def test_plans_say_which_calls_are_extrapolated() -> None:
    plan = perfatlas.estimate(model="examples/query_plan.toml", system="h200_sxm")
    told = [text for text in plan.warnings if "extrapolated" in text]
    assert any("group_by_1: libcudf groupby max: published calls have" in text for text in told)
