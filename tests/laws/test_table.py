"""The answer of a row does not depend on the other rows of its table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.engines import engine_names
from perfatlas.hardware import system_names
from perfatlas.verbs.estimate import estimate_table
from tests.examples import scaled_examples
from tests.laws.support import MODELS

NUMBERS = st.fixed_dictionaries(
    {
        "model": st.sampled_from([*MODELS, "resnet-50", "whisper-large-v3", "dlrm-dcnv2"]),
        "system": st.sampled_from(
            [*system_names(), "h200_sxm{device.memory.bandwidth=6 TB/s}", "h200", "v5p-128"]
        ),
        "tier": st.sampled_from(["auto", "bound", "physics"]),
    },
    optional={
        "engine": st.sampled_from(engine_names()),
        "gpus": st.sampled_from([1, 8, 16]),
        "tp": st.sampled_from([1, 2, 3, 4, 8]),
        "pp": st.sampled_from([1, 2]),
        "attention_dp": st.sampled_from([1, 2]),
        "ep": st.sampled_from([1, 2, 8]),
        "dp": st.sampled_from([1, 2]),
        "batch": st.integers(1, 512),
        "concurrency": st.integers(1, 512),
        "isl": st.integers(1, 20_000),
        "osl": st.integers(1, 2_000),
        "prefix": st.integers(0, 2_000),
        "format": st.sampled_from(["bf16", "fp8", "fp8_block", "nvfp4", "int4_wo"]),
        "kv_format": st.sampled_from(["bf16", "fp8"]),
        "max_num_batched_tokens": st.sampled_from([512, 8192]),
        "clock_ratio": st.sampled_from([0.5, 1.0]),
        "expert_distribution": st.sampled_from(["balanced", "power_law_1.2"]),
    },
)
ONE_POOL = st.tuples(NUMBERS, st.sampled_from(["static", "aggregated"])).map(
    lambda parts: {**parts[0], "mode": parts[1]}
)
POOLS = st.tuples(
    NUMBERS,
    st.fixed_dictionaries(
        {},
        optional={
            "prefill_tp": st.sampled_from([1, 2, 4]),
            "decode_tp": st.sampled_from([1, 2, 4, 5]),
            "prefill_workers": st.integers(1, 4),
            "decode_workers": st.integers(1, 4),
            "prefill_batch": st.integers(1, 4),
            "decode_batch": st.integers(1, 64),
            "decode_system": st.sampled_from(["h200_sxm", "a100_sxm", "gaudi3"]),
        },
    ),
).map(lambda parts: {**parts[0], **parts[1], "mode": "disaggregated"})
ROWS = st.lists(ONE_POOL | POOLS, min_size=1, max_size=8)


def table_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = sorted({name for row in rows for name in row})
    return estimate_table({name: [row.get(name) for row in rows] for name in names}).columns


@given(rows=ROWS, order=st.randoms(use_true_random=False))
@settings(max_examples=scaled_examples(1))
def test_rows_are_estimates_in_any_order(rows: list[dict[str, Any]], order: Any) -> None:  # noqa: ANN401
    columns = table_of(rows)
    _check_order(rows, columns, order)
    for position, row in enumerate(rows):
        for name, (found,) in table_of([row]).items():
            there = columns[name][position]
            wanted = pytest.approx(found, rel=1e-12) if isinstance(found, float) else found
            assert there == wanted, (row, name)


def _check_order(rows: list[dict[str, Any]], columns: dict[str, list[Any]], order: Any) -> None:  # noqa: ANN401
    positions = list(range(len(rows)))
    order.shuffle(positions)
    shuffled = table_of([rows[p] for p in positions])
    assert set(columns) == set(shuffled)
    for name, values in columns.items():
        there = [values[p] for p in positions]
        if name.startswith(("tier", "warnings", "error")) or name.endswith("_bound"):
            assert shuffled[name] == there
        else:
            np.testing.assert_allclose(
                np.array(shuffled[name], float), np.array(there, float), rtol=1e-12
            )


def test_equal_rows_are_priced_once() -> None:
    row = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "tp": 2, "batch": 8}
    once = estimate_table({name: [value] for name, value in row.items()})
    often = estimate_table({name: [value] * 50 for name, value in row.items()})
    assert often.results["distinct_shapes"] == once.results["distinct_shapes"]
    assert often.results["operators_priced"] == 50 * once.results["operators_priced"]
    assert set(often.columns["tpot_s"]) == {once.columns["tpot_s"][0]}


def test_columns_no_scenario_knows_are_ignored_and_empty_cells_are_not_given() -> None:
    table: dict[str, list[Any]] = {
        "model": ["meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"],
        "system": ["h200_sxm", "h200_sxm"],
        "batch": [8, "8"],
        "tp": [float("nan"), ""],
        "note": ["a", "b"],
    }
    columns = estimate_table(table).columns
    assert columns["error_code"] == ["", ""]
    assert columns["tpot_s"][0] == columns["tpot_s"][1]


def test_numpy_columns_are_columns() -> None:
    table: dict[str, Any] = {
        "model": ["meta-llama/Llama-3.1-8B"] * 3,
        "system": ["h200_sxm"] * 3,
        "batch": np.arange(1, 4),
        "clock_ratio": np.ones(3),
    }
    assert estimate_table(table).columns["error"] == [""] * 3
